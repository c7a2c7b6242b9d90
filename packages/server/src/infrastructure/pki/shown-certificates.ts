// Which certificates a server shows: the cluster's own to agents, and to clients the operator's, where there is one.
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { OwnCertificate, type CertificateFiles, type PublicCertificate } from "./own-certificate.ts";

const ROTATE_CHECK_MS = 6 * 3600_000;

interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

export interface CertificatePair {
  readonly certificate: KeyPair;
  readonly agentCertificate: KeyPair;
}

export interface ShownCertificatesDeps {
  /** The cluster's own. */
  readonly pki: {
    readonly caFile: string;
    serverTls(): PublicCertificate;
    onRotate(listener: (renewed: PublicCertificate) => void): () => void;
    rotateIfDue(): Promise<boolean>;
  };
  /** undefined = clients are shown the cluster's own. */
  readonly files: CertificateFiles | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

export class ShownCertificates {
  readonly #deps: ShownCertificatesDeps;
  readonly #own: OwnCertificate | undefined;

  /** Throws config.invalid where the operator's cannot be served. */
  constructor(deps: ShownCertificatesDeps) {
    this.#deps = deps;
    const { files, clock, log } = deps;
    this.#own = files === undefined ? undefined : new OwnCertificate({ files, clock, log });
  }

  /** What clients of both APIs are shown. */
  shown(): PublicCertificate {
    return this.#own?.current() ?? this.#deps.pki.serverTls();
  }

  /** Where clients on this machine find whom to trust: of the operator's, its chain is all that is known. */
  get caFile(): string {
    return this.#deps.files?.certFile ?? this.#deps.pki.caFile;
  }

  pair(): CertificatePair {
    const cluster = this.#deps.pki.serverTls();
    const { certPem: cert, keyPem: key } = this.shown();
    return {
      certificate: { cert, key },
      agentCertificate: { cert: cluster.certPem, key: cluster.keyPem },
    };
  }

  /** Called when clients are shown another one. Returns the unsubscribe. */
  onChange(listener: (shown: PublicCertificate) => void): () => void {
    return this.#own === undefined ? this.#deps.pki.onRotate(listener) : this.#own.onChange(listener);
  }

  /** Renews and reloads until the returned function is called. */
  keep(listener: { setCertificates(pair: CertificatePair): void }, onRotate: () => void): () => void {
    const { pki, clock, log } = this.#deps;
    const show = (): void => listener.setCertificates(this.pair());
    const rotate = (): void => {
      background(log, "certificate rotation", pki.rotateIfDue());
      stopRotation = clock.after(ROTATE_CHECK_MS, rotate);
    };
    let stopRotation = clock.after(ROTATE_CHECK_MS, rotate);
    const stopped = [
      pki.onRotate(() => {
        show();
        onRotate();
      }),
      this.#own?.onChange(show),
    ];
    this.#own?.watch();
    return () => {
      stopRotation();
      this.#own?.close();
      for (const stop of stopped) stop?.();
    };
  }
}
