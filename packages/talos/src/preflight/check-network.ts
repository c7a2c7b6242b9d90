// Addresses that somebody has already, and the source of images: asked of the network itself.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import type { Step } from "../plan/plan-steps.ts";
import { error, type Finding, warning } from "./finding-report.ts";
import type { Probes } from "./probes.ts";

interface Asked {
  readonly subject: string;
  readonly address: string;
  readonly macs: readonly string[];
}

/** `absent` are machines that are still to be made; `isNew`: none of the cluster's are there. */
export async function probeAddresses(
  { endpoint, network, providers }: Cluster,
  absent: readonly Pick<Machine, "name" | "addresses" | "mac" | "provider">[],
  isNew: boolean,
  probes: Probes,
): Promise<readonly Finding[]> {
  if (!network.ipam.probe) return [];
  // What is behind a jump is another network than the one of the same numbers here.
  const behind = new Set(providers.filter(({ jump }) => jump !== undefined).map(({ name }) => name));
  const missing = absent.filter(({ provider }) => !behind.has(provider));
  const vip = isNew && behind.size === 0 ? endpoint.vip : undefined;
  const macs = missing.map(({ mac }) => mac.toUpperCase());
  const asked: readonly Asked[] = [
    ...missing.flatMap(({ name, addresses }) =>
      addresses.map((address) => ({ subject: name, address, macs })),
    ),
    ...(vip === undefined ? [] : [{ subject: "endpoint.vip", address: vip, macs }]),
  ];
  // On this machine alone everything answers.
  const found = await Promise.all(
    asked.filter(({ address }) => !/^(127\.|::1$)/.test(address)).map((each) => probeAddress(each, probes)),
  );
  return found.flat();
}

async function probeAddress({ subject, address, macs }: Asked, probes: Probes): Promise<readonly Finding[]> {
  const sign = await probes.address(address);
  // What is left of a machine that was deleted a moment ago is nobody else's.
  if (sign === undefined || (sign.mac !== undefined && macs.includes(sign.mac))) return [];
  const evidence = `${address} answers: ${sign.how}${sign.mac === undefined ? "" : `, MAC ${sign.mac}`}`;
  return [(sign.isSure ? error : warning)("address-answers", subject, evidence)];
}

/** Only asked when something of the version is still to be fetched: an image, or what machines upgrade from. */
export async function probeImageSource(
  { image, versions }: Cluster,
  probes: Probes,
): Promise<readonly Finding[]> {
  const wanted = versions.talos.replace(/^v?/, "v");
  const failures: string[] = [];
  for (const base of [image.factory, ...image.mirrors]) {
    try {
      const known = await probes.versions(base);
      return known.includes(wanted)
        ? []
        : [error("image-version-unknown", wanted, `${base} has ${newest(known, wanted)}`)];
    } catch (err) {
      failures.push(`${base}: ${messageOf(err)}`);
    }
  }
  return [warning("image-source-silent", wanted, failures.join("; "))];
}

/** Machines that are to be upgraded pull from there, also where no image is to be fetched. */
export async function probeUpgradeSource(
  cluster: Cluster,
  steps: readonly Step[],
  probes: Probes,
): Promise<readonly Finding[]> {
  const isUpgrading = steps.some(({ kind }) => kind === "talos.upgrade");
  return isUpgrading && cluster.image.offlineDir === null ? probeImageSource(cluster, probes) : [];
}

/** Those of the same minor, or at least how many there are. */
function newest(known: readonly string[], wanted: string): string {
  const minor = wanted.split(".").slice(0, 2).join(".");
  const near = known.filter((version) => version.startsWith(`${minor}.`));
  return near.length === 0 ? `no ${minor}` : near.slice(-5).join(", ");
}
