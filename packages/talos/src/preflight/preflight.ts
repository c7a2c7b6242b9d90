// Every check that can be made before anything is touched. All findings are told at once.
import { given } from "@gpve/contracts/given.ts";
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import { crowdedControlPlanes } from "../cluster/machine-places.ts";
import type { Driver, Observation } from "../driver/driver.ts";
import { cloneMode, TEMPLATE_TAG, templateUuid } from "../cluster/templates.ts";
import { clonesOf } from "../driver/linked-clones.ts";
import { lackingTemplates } from "../engine/decide/decide-templates.ts";
import type { SeenTemplate } from "../engine/world.ts";
import type { ClusterLock } from "../folder/lock-file.ts";
import { decidedVersions } from "../folder/pinned-versions.ts";
import { imageContent } from "../image/image-file.ts";
import { unpinnedImages } from "../image/image-pins.ts";
import { checkBalancer, type CheckedBalancer } from "./check-balancer.ts";
import { networkOf } from "./check-bridge.ts";
import { checkDevices } from "./check-devices.ts";
import { checkFile } from "./check-file.ts";
import { checkGuests, isOurs, type KnownGuest, readGuests, uuidOf } from "./check-guests.ts";
import { checkHardware } from "./check-hardware.ts";
import { checkArchives, checkOfflineImages, lackingImages } from "./check-image.ts";
import { checkNodes } from "./check-nodes.ts";
import { checkAccounts, checkPrivileges } from "./check-privileges.ts";
import { probeAddresses, probeImageSource } from "./check-network.ts";
import { probeTimeServers } from "./check-time.ts";
import { error, type Finding, warning } from "./finding-report.ts";
import type { Probes } from "./probes.ts";

export interface PreflightRequest {
  readonly cluster: Cluster;
  readonly machines: readonly Machine[];
  /** Where paths of the file are relative to. */
  readonly folder: string;
  /** What was written down by applies before; absent: nothing was. */
  readonly lock?: Pick<ClusterLock, "images" | "unpinned"> &
    Partial<Pick<ClusterLock, "appliedAt" | "contract" | "kubernetes">>;
  /** Absent: the network itself is not asked. */
  readonly probes?: Probes | undefined;
  readonly openDriver: (provider: Cluster["providers"][number]) => Promise<Driver>;
}

export interface ObservedProvider {
  readonly name: string;
  readonly observation: Observation;
  /** Those that have a VMID or an address of ours, or our tag. */
  readonly guests: readonly KnownGuest[];
  /** Volumes of images, by the node that has them. */
  readonly images: ReadonlyMap<string, readonly string[]>;
  /** Ours, sealed or about to be. */
  readonly templates: readonly SeenTemplate[];
  /** Every node sees the disks of every machine. */
  readonly sharesDisks: boolean;
  /** Every node has what one has. */
  readonly sharesImages: boolean;
}

export interface PreflightResult {
  readonly findings: readonly Finding[];
  /** Providers that answered. */
  readonly observed: readonly ObservedProvider[];
  /** Whether there is an image of the version: it was asked. */
  readonly hasAskedSource: boolean;
}

export const clusterTag = (cluster: Cluster): string => `talos-${cluster.metadata.name}`;

export async function preflight(request: PreflightRequest): Promise<PreflightResult> {
  const { cluster, machines } = request;
  const observed: ObservedProvider[] = [];
  const findings: Finding[] = [
    ...checkFile(cluster, machines),
    ...checkContract(cluster, request.lock),
    ...unpinnedImages(cluster, machines, request.lock ?? {}),
  ];
  const absent: Machine[] = [];
  const fronts: CheckedBalancer["absent"][number][] = [];
  let isFetching = false;
  for (const provider of cluster.providers) {
    let driver: Driver | undefined;
    try {
      driver = await request.openDriver(provider);
      const own = machines.filter((machine) => machine.provider === provider.name);
      const seen = await lookAtProvider(driver, provider, cluster);
      observed.push(seen);
      const tag = clusterTag(cluster);
      const existing = new Set(
        own
          .filter((machine) => seen.guests.some((known) => isOurs(known, machine, tag)))
          .map(({ vmid }) => vmid),
      );
      const missing = own.filter(({ vmid }) => !existing.has(vmid));
      const network = await networkOf(cluster, seen.observation, driver);
      const hardware = checkHardware(cluster, own, seen.guests, tag);
      const made = [...missing, ...hardware.growing];
      const front = await checkBalancer(cluster, machines, driver, seen.guests);
      const images = lackingImages(cluster, madeFromImages(cluster, own, missing, seen), seen);
      findings.push(
        ...checkVersion(provider, seen.observation),
        ...(await checkPrivileges(cluster, provider, made, driver, network.path)),
        ...(await checkDevices(made, driver)),
        // One that runs has its accounts.
        ...(existing.size === 0 ? await checkAccounts(cluster, provider, driver) : []),
        ...checkPool(provider, seen.observation),
        ...checkNodes(cluster, provider, own, seen.observation, existing, network),
        ...checkGuests(own, seen.guests, tag),
        ...hardware.findings,
        ...front.findings,
        ...(await checkOfflineImages(cluster, images, request.folder)),
        ...(await checkArchives(cluster, missing, request.folder)),
      );
      absent.push(...missing);
      fronts.push(...front.absent);
      isFetching ||= images.length > 0 && cluster.image.offlineDir === null && cluster.image.archive === null;
    } catch (err) {
      findings.push(whyNot(err, provider));
    } finally {
      driver?.close();
    }
  }
  findings.push(...checkSpread(cluster, machines, absent));
  if (request.probes !== undefined) {
    const isNew = absent.length === machines.length;
    const [addresses, times] = await Promise.all([
      probeAddresses(cluster, [...absent, ...fronts], isNew, request.probes),
      absent.length === 0 ? [] : probeTimeServers(cluster, request.probes),
    ]);
    findings.push(
      ...addresses,
      ...times,
      ...(isFetching ? await probeImageSource(cluster, request.probes) : []),
    );
  }
  return { findings, observed, hasAskedSource: request.probes !== undefined && isFetching };
}

/** The file may name another one; that it does is no slip that goes by unseen. */
function checkContract({ metadata, versions }: Cluster, lock: PreflightRequest["lock"]): readonly Finding[] {
  const { appliedAt = null, contract: made = null, kubernetes } = lock ?? {};
  const contract =
    decidedVersions({ appliedAt, contract: made, ...given({ kubernetes }) }).contract ?? versions.contract;
  const evidence = `made as ${contract}, the file says ${versions.contract}`;
  return contract === versions.contract ? [] : [warning("contract-differs", metadata.name, evidence)];
}

/** The lock may know places that the file alone would not give; machines that are there are left where they are. */
function checkSpread(
  cluster: Cluster,
  machines: readonly Machine[],
  absent: readonly Machine[],
): readonly Finding[] {
  const isAbsent = (name: string): boolean => absent.some((machine) => machine.name === name);
  return crowdedControlPlanes(cluster, machines).map(({ name, host, beside }) =>
    (isAbsent(name) || isAbsent(beside) ? error : warning)(
      "spread-impossible",
      name,
      `on ${host} beside ${beside}`,
    ),
  );
}

/** With templates only these are; machines are cloned from them. */
function madeFromImages(
  cluster: Cluster,
  own: readonly Machine[],
  missing: readonly Machine[],
  { name, templates, sharesDisks }: ObservedProvider,
): readonly Machine[] {
  if (cloneMode(cluster) === undefined) return missing;
  const world = { templates, sharingDisks: new Set(sharesDisks ? [name] : []) };
  const lacking = lackingTemplates({ desired: { cluster, machines: own }, world });
  return lacking.map(({ machine, host }) => ({ ...machine, host }));
}

/** Configurations of guests that have our tag, or of all. */
export async function lookAtProvider(
  driver: Driver,
  provider: Cluster["providers"][number],
  cluster: Cluster,
  which: "all" | "ours" = "all",
): Promise<ObservedProvider> {
  const tag = clusterTag(cluster);
  const content = imageContent(cluster.image);
  const look = async () => {
    const observation = await driver.observe(provider.nodes);
    const asked = observation.guests.filter(({ tags }) => which === "all" || tags.includes(tag));
    return { observation, guests: await readGuests(driver, { ...observation, guests: asked }, tag) };
  };
  const first = await look();
  // One of ours that was moved while it was asked is found where it is now.
  const { observation, guests } = first.guests.some((known) => isLost(known, tag)) ? await look() : first;
  const { image } = provider.storage;
  const holders = observation.nodes.filter(({ isOnline, storages }) => {
    return isOnline && storages.some(({ name, isActive }) => name === image && isActive);
  });
  const images = await Promise.all(
    holders.map(
      async ({ name }) => [name, await driver.volumes(name, image, content).catch(() => [])] as const,
    ),
  );
  const sharesImages = holders.some(({ storages }) =>
    storages.some(({ name, isShared }) => name === image && isShared),
  );
  const { vm, efi, cloudinit } = provider.storage;
  return {
    name: provider.name,
    observation,
    guests,
    images: new Map(images),
    sharesImages,
    sharesDisks: [vm, efi, cloudinit].every((each) => isShared(observation, each)),
    templates: await templatesOf(driver, provider.name, cluster, guests),
  };
}

const isLost = ({ guest, config, unread }: KnownGuest, tag: string): boolean =>
  guest.tags.includes(tag) && unread === undefined && Object.keys(config).length === 0;

const isShared = ({ nodes }: Observation, storage: string): boolean =>
  nodes.some(({ storages }) => storages.some((each) => each.name === storage && each.isShared));

async function templatesOf(
  driver: Driver,
  provider: string,
  cluster: Cluster,
  guests: readonly KnownGuest[],
): Promise<readonly SeenTemplate[]> {
  const own = guests.filter(
    ({ guest: { name, tags }, config }) =>
      tags.includes(TEMPLATE_TAG) &&
      tags.includes(clusterTag(cluster)) &&
      uuidOf(config) === templateUuid(cluster.metadata.name, name),
  );
  return Promise.all(
    own.map(async ({ guest: { name, host, vmid, isTemplate }, config }) => {
      const place = { host, vmid };
      const clones = isTemplate ? await clonesOf(driver, place, config) : [];
      return { name, provider, place, isSealed: isTemplate, config, clones };
    }),
  );
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
      typeof print === "string" && !evidence.includes(print) ? `${evidence}; it is ${print}` : evidence,
    );
  }
  if (err.kind === "unauthenticated") return error("credentials-wrong", name, evidence);
  if (err.kind === "forbidden") return error("privilege-missing", name, evidence);
  if (err.kind === "unavailable" || err.kind === "timeout")
    return error("platform-unreachable", name, evidence);
  throw err;
}
