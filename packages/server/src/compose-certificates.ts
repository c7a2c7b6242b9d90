// Which certificates a server shows: the cluster's own to agents, and to clients the operator's, where there is one.
import type { Clock } from "@gpve/kit/clock.ts";
import { background } from "@gpve/kit/background.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { ClusterPki } from "./infrastructure/pki/cluster-pki.ts";
import {
  OwnCertificate,
  type CertificateFiles,
  type PublicCertificate,
} from "./infrastructure/pki/own-certificate.ts";
import type { Listener, ListenerOptions } from "./presentation/listener/listener.ts";

const ROTATE_CHECK_MS = 6 * 3600_000;

export interface Certificates {
  /** What clients of both APIs are shown. */
  shown(): PublicCertificate;
  /** Where clients on this machine find whom to trust. */
  readonly caFile: string;
  /** Called when clients are shown another one. Returns the unsubscribe. */
  onChange(listener: (shown: PublicCertificate) => void): () => void;
  readonly options: () => Pick<ListenerOptions, "certificate" | "agentCertificate">;
  /** Renews and reloads until the returned function is called. */
  keep(listener: Pick<Listener, "setCertificates">, onRotate: () => void): () => void;
}

export function composeCertificates(parts: {
  readonly pki: ClusterPki;
  readonly files: CertificateFiles | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}): Certificates {
  const { pki, files, clock, log } = parts;
  const own = files === undefined ? undefined : new OwnCertificate({ files, clock, log });
  const shown = (): PublicCertificate => own?.current() ?? pki.serverTls();
  const options = () => {
    const cluster = pki.serverTls();
    const { certPem: cert, keyPem: key } = shown();
    return {
      certificate: { cert, key },
      agentCertificate: { cert: cluster.certPem, key: cluster.keyPem },
    };
  };
  return {
    shown,
    // Its chain is all that is known of who vouches for it.
    caFile: files?.certFile ?? pki.caFile,
    options,
    onChange: (listener) => (own === undefined ? pki.onRotate(listener) : own.onChange(listener)),
    keep(listener, onRotate) {
      let rotation = clock.after(ROTATE_CHECK_MS, rotate);
      const stopped = [
        pki.onRotate(() => {
          listener.setCertificates(options());
          onRotate();
        }),
        own?.onChange(() => listener.setCertificates(options())),
      ];
      own?.watch();
      return () => {
        rotation();
        own?.close();
        for (const stop of stopped) stop?.();
      };

      function rotate(): void {
        background(log, "certificate rotation", pki.rotateIfDue());
        rotation = clock.after(ROTATE_CHECK_MS, rotate);
      }
    },
  };
}
