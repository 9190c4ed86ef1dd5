//! For each line of input, a number, compresses a file that many times; prints the milliseconds for all of them and the
//! bytes of one.

#![expect(clippy::print_stdout, reason = "the results go to stdout")]

use std::io::{self, Write};
use std::time::Instant;

use waymark::codec::gzip;

fn main() -> io::Result<()> {
  let path = std::env::args()
    .nth(1)
    .ok_or_else(|| io::Error::other("the path of a file is missing"))?;
  let bytes = std::fs::read(path)?;
  for line in io::stdin().lines() {
    let times: u32 = line?.parse().map_err(io::Error::other)?;
    let started = Instant::now();
    let mut size = 0;
    for _ in 0..times {
      size = gzip::compress(&bytes, "").len();
    }
    println!("{:.3} {size}", started.elapsed().as_secs_f64() * 1000.0);
    io::stdout().flush()?;
  }
  Ok(())
}
