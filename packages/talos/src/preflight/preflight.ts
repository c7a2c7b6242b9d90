// Every check that can be made before anything is touched. All findings are told at once.
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import type { Driver, Observation } from "../driver/driver.ts";
import { checkFile } from "./check-file.ts";
import { checkGuests, isOurs, type KnownGuest, readGuests } from "./check-guests.ts";
import { checkNodes } from "./check-nodes.ts";
import { checkPrivileges } from "./check-privileges.ts";
import { error, type Finding } from "./finding-report.ts";

export interface PreflightRequest {
  readonly cluster: Cluster;
  readonly machines: readonly Machine[];
  readonly openDriver: (provider: Cluster["providers"][number]) => Promise<Driver>;
}

export interface ObservedProvider {
  readonly name: string;
  readonly observation: Observation;
  /** Those that have a VMID or an address of ours, or our tag. */
  readonly guests: readonly KnownGuest[];
  readonly images: readonly string[];
}

export interface PreflightResult {
  readonly findings: readonly Finding[];
  /** Providers that answered. */
  readonly observed: readonly ObservedProvider[];
}

export const clusterTag = (cluster: Cluster): string => `talos-${cluster.metadata.name}`;

export async function preflight(request: PreflightRequest): Promise<PreflightResult> {
  const { cluster, machines } = request;
  const observed: ObservedProvider[] = [];
  const findings: Finding[] = [...checkFile(cluster, machines)];
  for (const provider of cluster.providers) {
    let driver: Driver | undefined;
    try {
      driver = await request.openDriver(provider);
      const own = machines.filter((machine) => machine.provider === provider.name);
      const seen = await look(driver, provider);
      observed.push(seen);
      const tag = clusterTag(cluster);
      const existing = new Set(
        own
          .filter((machine) =>
            seen.guests.some((known) => known.guest.vmid === machine.vmid && isOurs(known, machine, tag)),
          )
          .map(({ vmid }) => vmid),
      );
      findings.push(
        ...checkVersion(provider, seen.observation),
        ...(await checkPrivileges(cluster, provider, driver)),
        ...checkPool(provider, seen.observation),
        ...checkNodes(cluster, provider, own, seen.observation, existing),
        ...checkGuests(own, seen.guests, tag),
      );
    } catch (err) {
      findings.push(whyNot(err, provider));
    } finally {
      driver?.close();
    }
  }
  return { findings, observed };
}

async function look(driver: Driver, provider: Cluster["providers"][number]): Promise<ObservedProvider> {
  const observation = await driver.observe(provider.nodes);
  const guests = await readGuests(driver, observation.guests);
  const [first] = observation.nodes.filter(({ isOnline, storages }) => {
    return isOnline && storages.some(({ name, isActive }) => name === provider.storage.image && isActive);
  });
  const images =
    first === undefined
      ? []
      : await driver.volumes(first.name, provider.storage.image, "import").catch(() => []);
  return { name: provider.name, observation, guests, images };
}

function checkVersion(
  { name, type }: Cluster["providers"][number],
  { version }: Observation,
): readonly Finding[] {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isOld = major < 8 || (major === 8 && minor < 4);
  return type === "pve-api" && isOld ? [error("platform-version", name, `it is ${version}`)] : [];
}

function checkPool({ pool }: Cluster["providers"][number], { pools }: Observation): readonly Finding[] {
  return pool === null || pools.includes(pool)
    ? []
    : [error("pool-missing", pool, `there: ${pools.join(", ") || "none"}`)];
}

/** A provider that could not be asked. */
function whyNot(err: unknown, { name, endpoint }: Cluster["providers"][number]): Finding {
  const evidence = `${endpoint ?? "here"}: ${messageOf(err)}`;
  if (!isAppError(err)) throw err;
  if (err.data["finding"] === "secret-reference") return error("secret-reference", name, messageOf(err));
  if (err.data["untrusted"] === true || err.data["finding"] === "platform-untrusted") {
    const print = err.data["fingerprint"];
    return error(
      "platform-untrusted",
      name,
      typeof print === "string" ? `${evidence}; it is ${print}` : evidence,
    );
  }
  if (err.kind === "unauthenticated") return error("credentials-wrong", name, evidence);
  if (err.kind === "forbidden") return error("privilege-missing", name, evidence);
  if (err.kind === "unavailable" || err.kind === "timeout")
    return error("platform-unreachable", name, evidence);
  throw err;
}
