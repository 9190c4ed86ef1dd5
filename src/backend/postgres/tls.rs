//! How sure the client wants to be of whom it talks to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
  CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Whom the client believes to be the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
  /// Nothing is encrypted.
  NoTls,
  /// Encrypted, whoever it is.
  Anybody,
  /// Whoever has a certificate of an authority that is trusted.
  Signed,
  /// The same, and it must be for this host.
  SignedForHost,
}

#[derive(Debug, Clone)]
pub struct Tls {
  pub trust: Trust,
  /// Whether the client goes on without it, if that is all that the server has.
  pub is_optional: bool,
  /// Who is trusted, in PEM; without it, whom the system trusts.
  pub root: Option<PathBuf>,
}

impl Tls {
  /// What makes the connections. The files of certificates are read now; the error says which cannot be.
  pub fn connector(&self) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match self.trust {
      Trust::NoTls | Trust::Anybody => Arc::new(Believing {
        provider: Arc::clone(&provider),
        authorities: None,
      }),
      Trust::Signed | Trust::SignedForHost => {
        let certificates = self.authorities()?;
        let mut roots = RootCertStore::empty();
        // The system's own may hold some that nobody can read.
        roots.add_parsable_certificates(certificates.iter().cloned());
        Arc::new(Believing {
          provider: Arc::clone(&provider),
          authorities: Some(Authorities {
            roots,
            certificates,
            is_for_host: self.trust == Trust::SignedForHost,
          }),
        })
      }
    };
    let config = ClientConfig::builder_with_provider(provider)
      .with_safe_default_protocol_versions()
      .map_err(|error| error.to_string())?
      .dangerous()
      .with_custom_certificate_verifier(verifier)
      .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
  }

  fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = match &self.root {
      Some(path) => in_file(path)?,
      None => rustls_native_certs::load_native_certs().certs,
    };
    if certificates.is_empty() {
      return Err(match &self.root {
        Some(path) => format!("sslrootcert {} holds no certificate in PEM", path.display()),
        None => "the system has no certificates that could be trusted. Give a file of them as sslrootcert".to_owned(),
      });
    }
    Ok(certificates)
  }
}

fn in_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
  let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
  read.map_err(|error| format!("sslrootcert {} cannot be read ({error})", path.display()))
}

#[derive(Debug)]
struct Authorities {
  roots: RootCertStore,
  certificates: Vec<CertificateDer<'static>>,
  is_for_host: bool,
}

/// Looks at a certificate as far as it is asked to; that the other side holds its key is checked in any case.
#[derive(Debug)]
struct Believing {
  provider: Arc<CryptoProvider>,
  authorities: Option<Authorities>,
}

impl Authorities {
  fn verify(
    &self,
    provider: &CryptoProvider,
    certificate: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    host: &ServerName<'_>,
    now: UnixTime,
  ) -> Result<(), TlsError> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    let algorithms = provider.signature_verification_algorithms.all;
    let verified = verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms);
    // A certificate that a server made for itself is trusted if it is the very one that was given, though it is marked as that of
    // an authority. Its validity is checked before everything else.
    let is_given = self.certificates.iter().any(|given| given == certificate);
    match verified {
      Err(error) if !is_given || is_about_time(&error) => return Err(error),
      _ => {}
    }
    if self.is_for_host {
      verify_server_name(&parsed, host)?;
    }
    Ok(())
  }
}

/// Whether a certificate is refused because it is not valid yet or any more, or because that cannot be read.
fn is_about_time(error: &TlsError) -> bool {
  use CertificateError::{BadEncoding, Expired, ExpiredContext, NotValidYet, NotValidYetContext};
  matches!(
    error,
    TlsError::InvalidCertificate(
      BadEncoding | Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. }
    )
  )
}

impl ServerCertVerifier for Believing {
  fn verify_server_cert(
    &self,
    certificate: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    host: &ServerName<'_>,
    _ocsp: &[u8],
    now: UnixTime,
  ) -> Result<ServerCertVerified, TlsError> {
    if let Some(authorities) = &self.authorities {
      authorities.verify(&self.provider, certificate, intermediates, host, now)?;
    }
    Ok(ServerCertVerified::assertion())
  }

  fn verify_tls12_signature(
    &self,
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
  ) -> Result<HandshakeSignatureValid, TlsError> {
    verify_tls12_signature(
      message,
      certificate,
      signed,
      &self.provider.signature_verification_algorithms,
    )
  }

  fn verify_tls13_signature(
    &self,
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
  ) -> Result<HandshakeSignatureValid, TlsError> {
    verify_tls13_signature(
      message,
      certificate,
      signed,
      &self.provider.signature_verification_algorithms,
    )
  }

  fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
    self.provider.signature_verification_algorithms.supported_schemes()
  }
}
