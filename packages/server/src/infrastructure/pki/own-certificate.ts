// The operator's own certificate (`server.tlsCertFile`, `server.tlsKeyFile`), for the clients of both APIs. Agents know the
// cluster's own authority and are not concerned. Files are looked at again and again: whoever renews them needs to tell
// nobody. What cannot be served is told, and the certificate before it goes on.
import { X509Certificate, createPrivateKey, type KeyObject } from "node:crypto";
import { readFileSync } from "node:fs";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

export interface PublicCertificate {
  /** The certificate first, then those that vouch for it. */
  readonly certPem: string;
  readonly keyPem: string;
  /** "AA:BB:..", SHA-256, as PVE shows it. */
  readonly fingerprint: string;
}

export interface OwnCertificateDeps {
  readonly files: CertificateFiles;
  readonly clock: Clock;
  readonly log: {
    info(fields: Readonly<Record<string, unknown>>, message: string): void;
    error(fields: Readonly<Record<string, unknown>>, message: string): void;
  };
}

const LOOK_EVERY_MS = 5_000;

/** Throws config.invalid with the files and what to do. */
export function readOwnCertificate({ certFile, keyFile }: CertificateFiles, now: number): PublicCertificate {
  return judge(
    { certFile, keyFile },
    readText("tlsCertFile", certFile),
    readText("tlsKeyFile", keyFile),
    now,
  );
}

export class OwnCertificate {
  readonly #deps: OwnCertificateDeps;
  readonly #listeners = new Set<(certificate: PublicCertificate) => void>();
  #current: PublicCertificate;
  /** Why what lies there now is not served; told at the second look, since two files are not replaced at once. */
  #refused: { readonly why: string; readonly told: boolean } | undefined;
  #stop: () => void = () => undefined;

  /** Throws config.invalid: at a start there is no certificate before it. */
  constructor(deps: OwnCertificateDeps) {
    this.#deps = deps;
    this.#current = readOwnCertificate(deps.files, deps.clock.now());
  }

  current(): PublicCertificate {
    return this.#current;
  }

  onChange(listener: (certificate: PublicCertificate) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  watch(): void {
    this.#stop = this.#deps.clock.after(LOOK_EVERY_MS, () => {
      this.look();
      this.watch();
    });
  }

  close(): void {
    this.#stop();
  }

  /** Takes what lies there, if it is another certificate and a good one. */
  look(): void {
    const { files, clock, log } = this.#deps;
    let found: PublicCertificate;
    try {
      const certPem = readText("tlsCertFile", files.certFile);
      const keyPem = readText("tlsKeyFile", files.keyFile);
      // The one that is served may have ended in the meantime: there is none better.
      if (certPem === this.#current.certPem && keyPem === this.#current.keyPem) {
        this.#refused = undefined;
        return;
      }
      found = judge(files, certPem, keyPem, clock.now());
    } catch (err) {
      const why = messageOf(err);
      const isKnown = this.#refused?.why === why;
      if (isKnown && this.#refused?.told === false)
        log.error({ ...files }, `${why}; the old one is served on`);
      this.#refused = { why, told: isKnown };
      return;
    }
    this.#refused = undefined;
    this.#current = found;
    log.info({ ...files, fingerprint: found.fingerprint }, "another certificate is served from now on");
    for (const listener of this.#listeners) listener(found);
  }
}

function judge(files: CertificateFiles, certPem: string, keyPem: string, now: number): PublicCertificate {
  const { certFile, keyFile } = files;
  const certificate = parsed(
    `server.tlsCertFile ${certFile} holds no certificate in PEM form`,
    () => new X509Certificate(certPem),
  );
  const key = parsed(
    `server.tlsKeyFile ${keyFile} holds no private key in PEM form that can be used without a password`,
    () => createPrivateKey(keyPem),
  );
  requirePair(files, certificate, key);
  if (certificate.validToDate.getTime() <= now) {
    throw invalid(
      `server.tlsCertFile ${certFile} ended on ${certificate.validToDate.toISOString()}: put a renewed certificate there`,
    );
  }
  if (certificate.validFromDate.getTime() > now) {
    throw invalid(
      `server.tlsCertFile ${certFile} begins only on ${certificate.validFromDate.toISOString()}: check this machine's clock, or put a certificate there that is good now`,
    );
  }
  return { certPem, keyPem, fingerprint: certificate.fingerprint256 };
}

function requirePair(
  { certFile, keyFile }: CertificateFiles,
  certificate: X509Certificate,
  key: KeyObject,
): void {
  if (certificate.checkPrivateKey(key)) return;
  throw invalid(
    `server.tlsKeyFile ${keyFile} is not the key of the first certificate in server.tlsCertFile ${certFile}: name the two files that belong together`,
  );
}

function parsed<T>(otherwise: string, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    // The text of the cause may quote what was read.
    throw invalid(otherwise, cause);
  }
}

function readText(key: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw invalid(`cannot read server.${key} ${file}: ${messageOf(cause)}`, cause);
  }
}

function invalid(message: string, cause?: unknown): AppError {
  return new AppError("config.invalid", message, cause === undefined ? {} : { cause });
}
