//! A proxy between a store and its server that fails on request.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_postgres::config::Host;

use super::*;

/// The next fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
  None,
  /// Existing connections are closed, and new ones are refused.
  Closed,
  /// Nothing is forwarded, and no connection is closed.
  Silent,
  /// The connection breaks when a message with these bytes arrives, before the server sees it.
  Before(&'static [u8]),
  /// The server executes the message; then the connection breaks.
  After(&'static [u8]),
  /// The same, and from then on new connections are refused.
  Last(&'static [u8]),
}

/// The message `ReadyForQuery`, outside of a transaction.
const READY: &[u8] = b"Z\0\0\0\x05I";

#[derive(Debug, Clone)]
pub struct Proxy {
  address: SocketAddr,
  fault: Arc<Mutex<Fault>>,
  sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
  /// Starts a proxy in front of the server for the tests. It lives as long as the process.
  pub fn start() -> Self {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Self {
      address: listener.local_addr().unwrap(),
      fault: Arc::new(Mutex::new(Fault::None)),
      sockets: Arc::default(),
    };
    let server = proxy.clone();
    thread::spawn(move || {
      for client in listener.incoming().flatten() {
        let server = server.clone();
        thread::spawn(move || server.serve(&client));
      }
    });
    proxy
  }

  /// The URL of a schema, through this proxy.
  pub fn url(&self, schema: &Schema) -> String {
    let config = PgConfig::parse(server().unwrap(), Duration::from_secs(1))
      .unwrap()
      .client;
    let password = config.get_password().map(String::from_utf8_lossy).unwrap_or_default();
    let user = config.get_user().unwrap();
    let database = config.get_dbname().unwrap_or(user);
    format!(
      "postgres://{user}:{password}@{}/{database}?schema={}",
      self.address, schema.name
    )
  }

  pub fn set(&self, fault: Fault) {
    let is_closed = fault == Fault::Closed;
    *self.fault.lock() = fault;
    if is_closed {
      self.close_all();
    }
  }

  /// Whether the fault has happened.
  pub fn is_over(&self) -> bool {
    matches!(self.fault(), Fault::None | Fault::Closed)
  }

  fn fault(&self) -> Fault {
    self.fault.lock().clone()
  }

  fn close_all(&self) {
    for socket in self.sockets.lock().drain(..) {
      let _ = socket.shutdown(Shutdown::Both);
    }
  }

  fn serve(&self, client: &TcpStream) {
    if self.fault() == Fault::Closed {
      return;
    }
    let config = PgConfig::parse(server().unwrap(), Duration::from_secs(1))
      .unwrap()
      .client;
    let host = match &config.get_hosts()[0] {
      Host::Tcp(host) => host.clone(),
      #[cfg(unix)]
      Host::Unix(_) => panic!("the server for the tests needs an address"),
    };
    let server = TcpStream::connect((host, config.get_ports()[0])).unwrap();
    for socket in [client, &server] {
      socket.set_nodelay(true).unwrap();
      self.sockets.lock().push(socket.try_clone().unwrap());
    }
    let is_cut = Mutex::new(false);
    thread::scope(|scope| {
      scope.spawn(|| self.to_server(client, &server, &is_cut));
      self.to_client(&server, client, &is_cut);
    });
  }

  fn to_server(&self, mut client: &TcpStream, mut server: &TcpStream, is_cut: &Mutex<bool>) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(length @ 1..) = client.read(&mut buffer) {
      let message = &buffer[..length];
      let has = |bytes: &[u8]| message.windows(bytes.len()).any(|window| window == bytes);
      match self.fault() {
        Fault::Silent => continue,
        Fault::Before(bytes) if has(bytes) => {
          self.set(Fault::None);
          break;
        }
        Fault::After(bytes) if has(bytes) => {
          self.set(Fault::None);
          *is_cut.lock() = true;
        }
        Fault::Last(bytes) if has(bytes) => {
          *self.fault.lock() = Fault::Closed;
          *is_cut.lock() = true;
        }
        _ => {}
      }
      if server.write_all(message).is_err() {
        break;
      }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
  }

  fn to_client(&self, mut server: &TcpStream, mut client: &TcpStream, is_cut: &Mutex<bool>) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(length @ 1..) = server.read(&mut buffer) {
      let message = &buffer[..length];
      if *is_cut.lock() {
        if message.ends_with(READY) {
          break;
        }
        continue;
      }
      if self.fault() == Fault::Silent {
        continue;
      }
      if client.write_all(message).is_err() {
        break;
      }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
  }
}
