// Certificates that are valid for a day, made by openssl(1).

import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { scratchDirectory } from './stores.mjs'

export const lacksOpenssl = spawnSync('openssl', ['version']).error !== undefined && 'there is no openssl(1) here'

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

/** A certificate authority: the path of its certificate, and a function that issues one for a host. */
export function newAuthority(name) {
  const directory = scratchDirectory()
  const [key, certificate] = [join(directory, 'ca.key'), join(directory, 'ca.crt')]
  const openssl = (...args) => execFileSync('openssl', args, { cwd: directory, stdio: 'pipe' })
  openssl('req', '-x509', ...NEW_KEY, '-keyout', key, '-out', certificate, '-subj', `/CN=${name}`, '-days', '1')
  return {
    certificate,
    /** The key and the certificate of a host in PEM. */
    issue(host) {
      const [request, extension] = [join(directory, 'host.csr'), join(directory, 'host.ext')]
      const [hostKey, hostCertificate] = [join(directory, 'host.key'), join(directory, 'host.crt')]
      writeFileSync(extension, `subjectAltName=DNS:${host}\n`)
      openssl('req', ...NEW_KEY, '-keyout', hostKey, '-out', request, '-subj', `/CN=${host}`)
      const signed = ['-CA', certificate, '-CAkey', key, '-CAcreateserial', '-days', '1', '-extfile', extension]
      openssl('x509', '-req', '-in', request, ...signed, '-out', hostCertificate)
      return { key: readFileSync(hostKey, 'utf8'), certificate: readFileSync(hostCertificate, 'utf8') }
    },
  }
}
