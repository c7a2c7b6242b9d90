// The machines of a cluster over the network.
import { given } from "@gpve/contracts/given.ts";
import type { MachineAddress, Machines } from "../engine/machines-port.ts";
import { createTalosContext } from "../access/talosconfig.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import type { Dial } from "./ssh-jump.ts";
import { TalosClient } from "./talos-client.ts";
import { seenFingerprint, type TalosTrust } from "./talos-connection.ts";

/** Long enough for one run, too short to be worth stealing. */
const LIFETIME_HOURS = 24;

export class TalosMachines implements Machines {
  #secrets: SecretsBundle;
  readonly #now: number;
  readonly #dialOf: (machine: string) => Dial | undefined;
  #trust: Promise<TalosTrust> | undefined;

  /** `dialOf`: how a machine is reached that is not routed from here. */
  constructor(
    secrets: SecretsBundle,
    now: number,
    dialOf: (machine: string) => Dial | undefined = () => undefined,
  ) {
    this.#secrets = secrets;
    this.#now = now;
    this.#dialOf = dialOf;
  }

  /** Whoever is asked from now on is asked with these. */
  use(secrets: SecretsBundle): void {
    this.#secrets = secrets;
    this.#trust = undefined;
  }

  async member({ name, address }: MachineAddress, timeoutMs?: number): Promise<TalosClient> {
    this.#trust ??= clusterTrust(this.#secrets, this.#now);
    return TalosClient.open({
      address,
      trust: await this.#trust,
      ...given({ timeoutMs, dial: this.#dialOf(name) }),
    });
  }

  async stranger({ name, address }: MachineAddress, timeoutMs?: number): Promise<TalosClient> {
    const dial = this.#dialOf(name);
    const fingerprint = await seenFingerprint(address, dial);
    return TalosClient.open({
      address,
      trust: { kind: "fingerprint", fingerprint },
      ...given({ timeoutMs, dial }),
    });
  }
}

async function clusterTrust(secrets: SecretsBundle, now: number): Promise<TalosTrust> {
  const { ca, crt, key } = await createTalosContext(secrets, {
    endpoints: [],
    lifetimeHours: LIFETIME_HOURS,
    now,
  });
  const pem = (text: string): string => Buffer.from(text, "base64").toString("utf8");
  return { kind: "cluster", ca: pem(ca), crt: pem(crt), key: pem(key) };
}
