//! A fake server that speaks the protocol up to the login, which it refuses. Needs no real server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rcgen::{CertifiedIssuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The answer to a login.
#[derive(Debug, Clone, Copy)]
pub enum FakeReply {
  /// An SQLSTATE and a message.
  Refused(&'static str, &'static str),
  /// Asks for the password, then refuses.
  RefusedAfterPassword(&'static str, &'static str),
}

pub struct FakeServer {
  pub address: SocketAddr,
  /// The number of connections so far.
  pub connections: Arc<AtomicUsize>,
}

impl FakeServer {
  pub fn start(answer: FakeReply, tls: Option<Arc<ServerConfig>>) -> Self {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    thread::spawn(move || {
      for mut socket in listener.incoming().flatten() {
        counted.fetch_add(1, Ordering::Relaxed);
        let tls = tls.clone();
        thread::spawn(move || {
          let mut first = message(&mut socket)?;
          // This protocol version is the request for TLS.
          if first == 80_877_103_u32.to_be_bytes() {
            socket.write_all(if tls.is_some() { b"S" } else { b"N" }).ok()?;
            if let Some(tls) = tls {
              let mut secured = StreamOwned::new(ServerConnection::new(tls).ok()?, socket);
              message(&mut secured)?;
              return reply(&mut secured, answer);
            }
            first = message(&mut socket)?;
          }
          drop(first);
          reply(&mut socket, answer)
        });
      }
    });
    Self { address, connections }
  }

  pub fn url(&self, parameters: &str) -> String {
    format!("postgres://user:s3cret@{}/db?{parameters}", self.address)
  }
}

/// Reads a message; returns it without its length.
fn message(from: &mut impl Read) -> Option<Vec<u8>> {
  let mut length = [0; 4];
  from.read_exact(&mut length).ok()?;
  let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
  from.read_exact(&mut rest).ok()?;
  Some(rest)
}

fn reply(to: &mut (impl Read + Write), answer: FakeReply) -> Option<()> {
  let (state, message_text) = match answer {
    FakeReply::Refused(state, message_text) => (state, message_text),
    FakeReply::RefusedAfterPassword(state, message_text) => {
      to.write_all(b"R\0\0\0\x08\0\0\0\x03").ok()?;
      to.flush().ok()?;
      to.read_exact(&mut [0]).ok()?;
      assert_eq!(message(to)?, b"s3cret\0");
      (state, message_text)
    }
  };
  let fields = format!("SFATAL\0VFATAL\0C{state}\0M{message_text}\0\0");
  let length = u32::try_from(fields.len() + 4).unwrap();
  to.write_all(&[b"E", &length.to_be_bytes()[..], fields.as_bytes()].concat())
    .ok()?;
  to.flush().ok()
}

/// A certificate authority.
pub struct Authority {
  issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
  pub fn new() -> Self {
    let mut parameters = rcgen::CertificateParams::default();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    Self { issuer }
  }

  pub fn pem(&self) -> String {
    self.issuer.pem()
  }

  /// The configuration of a server with a certificate for a host, signed by this authority.
  pub fn server_for(&self, host: &str) -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec![host.to_owned()]).unwrap();
    let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
    config(certificate.der().clone(), &key)
  }
}

/// The configuration of a server with a self-signed certificate, and the certificate in PEM.
pub fn self_signed(host: &str) -> (Arc<ServerConfig>, String) {
  let made = rcgen::generate_simple_self_signed(vec![host.to_owned()]).unwrap();
  (config(made.cert.der().clone(), &made.signing_key), made.cert.pem())
}

/// The same, valid between two years. With `is_authority`, it is marked as an authority, like those of `openssl req -x509`.
pub fn self_signed_between(host: &str, years: (i32, i32), is_authority: bool) -> (Arc<ServerConfig>, String) {
  let mut parameters = rcgen::CertificateParams::new(vec![host.to_owned()]).unwrap();
  parameters.not_before = rcgen::date_time_ymd(years.0, 1, 1);
  parameters.not_after = rcgen::date_time_ymd(years.1, 1, 1);
  if is_authority {
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
  }
  let key = KeyPair::generate().unwrap();
  let certificate = parameters.self_signed(&key).unwrap();
  (config(certificate.der().clone(), &key), certificate.pem())
}

fn config(certificate: rustls::pki_types::CertificateDer<'static>, key: &KeyPair) -> Arc<ServerConfig> {
  let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
  let provider = Arc::new(rustls::crypto::ring::default_provider());
  let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
  let config = builder
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(vec![certificate], key);
  Arc::new(config.unwrap())
}
