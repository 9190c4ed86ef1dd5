//! Something that answers like a server, up to the point where it refuses. It needs none.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rcgen::{CertifiedIssuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What it says to whoever wants to get in.
#[derive(Debug, Clone, Copy)]
pub enum FakeReply {
  /// An SQLSTATE and a sentence.
  DbError(&'static str, &'static str),
  /// First a password, then that.
  AfterPassword(&'static str, &'static str),
}

pub struct Pretender {
  pub address: SocketAddr,
  /// How many have come.
  pub visitors: Arc<AtomicUsize>,
}

impl Pretender {
  pub fn start(answer: FakeReply, tls: Option<Arc<ServerConfig>>) -> Self {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let visitors = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&visitors);
    thread::spawn(move || {
      for mut socket in listener.incoming().flatten() {
        counted.fetch_add(1, Ordering::Relaxed);
        let tls = tls.clone();
        thread::spawn(move || {
          let mut first = message(&mut socket)?;
          // The number of the version stands for a wish.
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
    Self { address, visitors }
  }

  pub fn url(&self, parameters: &str) -> String {
    format!("postgres://user:s3cret@{}/db?{parameters}", self.address)
  }
}

/// A message without its length.
fn message(from: &mut impl Read) -> Option<Vec<u8>> {
  let mut length = [0; 4];
  from.read_exact(&mut length).ok()?;
  let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
  from.read_exact(&mut rest).ok()?;
  Some(rest)
}

fn reply(to: &mut (impl Read + Write), answer: FakeReply) -> Option<()> {
  let (state, sentence) = match answer {
    FakeReply::DbError(state, sentence) => (state, sentence),
    FakeReply::AfterPassword(state, sentence) => {
      to.write_all(b"R\0\0\0\x08\0\0\0\x03").ok()?;
      to.flush().ok()?;
      to.read_exact(&mut [0]).ok()?;
      assert_eq!(message(to)?, b"s3cret\0");
      (state, sentence)
    }
  };
  let fields = format!("SFATAL\0VFATAL\0C{state}\0M{sentence}\0\0");
  let length = u32::try_from(fields.len() + 4).unwrap();
  to.write_all(&[b"E", &length.to_be_bytes()[..], fields.as_bytes()].concat())
    .ok()?;
  to.flush().ok()
}

/// Who signs certificates, and in PEM.
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

  /// A server that has a certificate for a host, signed here.
  pub fn server_for(&self, host: &str) -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec![host.to_owned()]).unwrap();
    let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
    config(certificate.der().clone(), &key)
  }
}

/// A server whose certificate is its own authority, and that certificate in PEM.
pub fn self_signed(host: &str) -> (Arc<ServerConfig>, String) {
  let made = rcgen::generate_simple_self_signed(vec![host.to_owned()]).unwrap();
  (config(made.cert.der().clone(), &made.signing_key), made.cert.pem())
}

/// The same, valid from one year until another; as an authority, as `openssl req -x509` makes them, or not.
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
