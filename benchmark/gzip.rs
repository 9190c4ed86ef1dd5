//! For every line that it reads, compresses a file as often as the line says, and tells how many milliseconds all of that
//! took, and how many bytes one came to.

#![expect(clippy::print_stdout, reason = "that is how it answers")]

use std::io::{self, Write};
use std::time::Instant;

use waymark::codec::gzip;

fn main() -> io::Result<()> {
  let path = std::env::args().nth(1).ok_or_else(|| io::Error::other("which file?"))?;
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
