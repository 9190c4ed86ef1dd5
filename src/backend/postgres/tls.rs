//! TLS, and how the certificate of the server is verified.

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

/// How the certificate of the server is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
  /// The connection is not encrypted.
  NoTls,
  /// Any certificate is accepted.
  AnyCertificate,
  /// The certificate must be signed by a trusted authority.
  VerifyCa,
  /// The same, and it must be for this host.
  VerifyFull,
}

#[derive(Debug, Clone)]
pub struct Tls {
  pub trust: Trust,
  /// Whether a connection without TLS is accepted, if the server has none.
  pub is_optional: bool,
  /// A file with the trusted certificates, in PEM; `None` for those of the system.
  pub root: Option<PathBuf>,
}

impl Tls {
  /// Reads the certificates. The error names the file that cannot be read.
  pub fn connector(&self) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match self.trust {
      Trust::NoTls | Trust::AnyCertificate => Arc::new(CertificateVerifier {
        provider: Arc::clone(&provider),
        authorities: None,
      }),
      Trust::VerifyCa | Trust::VerifyFull => {
        let certificates = self.authorities()?;
        let mut roots = RootCertStore::empty();
        // Those of the system may include some that rustls cannot parse.
        roots.add_parsable_certificates(certificates.iter().cloned());
        Arc::new(CertificateVerifier {
          provider: Arc::clone(&provider),
          authorities: Some(Authorities {
            roots,
            certificates,
            is_for_host: self.trust == Trust::VerifyFull,
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
      Some(path) => read_certificates(path)?,
      None => rustls_native_certs::load_native_certs().certs,
    };
    if certificates.is_empty() {
      return Err(match &self.root {
        Some(path) => format!("sslrootcert {} contains no certificate in PEM", path.display()),
        None => "the system has no trusted certificates. Give a file with certificates as sslrootcert".to_owned(),
      });
    }
    Ok(certificates)
  }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
  let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
  read.map_err(|error| format!("sslrootcert {} cannot be read ({error})", path.display()))
}

#[derive(Debug)]
struct Authorities {
  roots: RootCertStore,
  certificates: Vec<CertificateDer<'static>>,
  is_for_host: bool,
}

/// Verifies certificates only if it has authorities. The signature, which proves that the server holds the key, is always
/// verified.
#[derive(Debug)]
struct CertificateVerifier {
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
    // A self-signed certificate is trusted if it is one of the trusted certificates, even if it is marked as that of an
    // authority, which the verifier rejects. The verifier checks the validity first, so that check has passed for every other
    // error.
    let is_trusted = self.certificates.iter().any(|known| known == certificate);
    match verified {
      Err(error) if !is_trusted || is_validity_error(&error) => return Err(error),
      _ => {}
    }
    if self.is_for_host {
      verify_server_name(&parsed, host)?;
    }
    Ok(())
  }
}

/// Whether a certificate is rejected because it is expired or not valid yet, or because its period of validity cannot be read.
fn is_validity_error(error: &TlsError) -> bool {
  use CertificateError::{BadEncoding, Expired, ExpiredContext, NotValidYet, NotValidYetContext};
  matches!(
    error,
    TlsError::InvalidCertificate(
      BadEncoding | Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. }
    )
  )
}

impl ServerCertVerifier for CertificateVerifier {
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
