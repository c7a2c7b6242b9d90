// What the platform itself comes to its clusters with; in memory, and for an hour.
import type { Clock } from "@gpve/kit/clock.ts";
import type { ClusterKeys } from "./cluster-keys.ts";
import type { KubeCredentials } from "./kube-api.ts";

const LIFETIME_MS = 3_600_000;

export class OwnCredentials {
  readonly #clock: Pick<Clock, "now">;
  readonly #known = new Map<string, { readonly credentials: KubeCredentials; readonly until: number }>();

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  async of(
    name: string,
    keys: ClusterKeys,
    at: Pick<KubeCredentials, "host" | "port">,
  ): Promise<KubeCredentials> {
    const known = this.#known.get(name);
    if (known !== undefined && known.until > this.#clock.now() + LIFETIME_MS / 4) return known.credentials;
    const { certPem, keyPem } = await keys.issue(
      { commonName: "gpve-agent", organisation: "system:masters", usage: "client" },
      LIFETIME_MS,
    );
    const credentials = { ...at, ca: keys.caPem, cert: certPem, key: keyPem };
    this.#known.set(name, { credentials, until: this.#clock.now() + LIFETIME_MS });
    return credentials;
  }

  forget(name: string): void {
    this.#known.delete(name);
  }
}
