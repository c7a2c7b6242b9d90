// A cluster opened for work: its platforms, its machines and its Kubernetes.
import type { Driver } from "@gpve/talos/driver/driver.ts";
import type { OpenCluster } from "@gpve/talos/engine/open-cluster.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { ImageWays } from "@gpve/talos/image/cluster-images.ts";
import type { Kubernetes } from "@gpve/talos/kubernetes/kubernetes.ts";
import type { SecretsBundle } from "@gpve/talos/secrets/bundle.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { Cli } from "../../command.ts";
import { around } from "./around.ts";
import { snapshotBucket } from "./etcd/find-snapshot.ts";
import { type PreparedFor, prepareFor } from "./prepare-addons.ts";
import { driverDeps } from "./preflight.ts";

export interface Opened {
  readonly cluster: OpenCluster;
  readonly drivers: ReadonlyMap<string, Driver>;
  readonly kubernetes: Kubernetes;
}

/** Closes everything when the work is over. */
export async function withOpenCluster<T>(
  cli: Cli,
  place: ClusterFolder,
  secrets: SecretsBundle,
  work: (opened: Opened) => Promise<T>,
  prepared?: PreparedFor,
): Promise<T> {
  const [
    { openDriver, openClient },
    { OpenCluster },
    { ClusterWays },
    { FileJournal, journalPath },
    { secretsPath, writeSecrets },
    { keepSnapshot },
    { ClusterAddons },
    { provideAccount },
  ] = await Promise.all([
    import("@gpve/talos/driver/open-driver.ts"),
    import("@gpve/talos/engine/open-cluster.ts"),
    import("@gpve/talos/client/cluster-ways.ts"),
    import("@gpve/talos/folder/journal.ts"),
    import("@gpve/talos/folder/secrets-store.ts"),
    import("@gpve/talos/folder/snapshot-store.ts"),
    import("@gpve/talos/addon/cluster-addons.ts"),
    import("@gpve/talos/addon/provide-account.ts"),
  ]);
  const { clock } = cli.io;
  const { cluster, folder } = place;
  const ways = await ClusterWays.open(place, secrets, {
    clock,
    exec,
    folder,
    env: cli.io.env,
    openClient: (provider) => openClient(provider, driverDeps(cli, place)),
  });
  const { kubernetes } = ways;
  const drivers = new Map<string, Driver>();
  const { addons } = prepared ?? (await prepareFor(cli, place, { isFetching: false }));
  try {
    for (const provider of cluster.providers)
      drivers.set(provider.name, await openDriver(provider, driverDeps(cli, place)));
    const opened = new OpenCluster({
      place,
      secrets,
      secretsFile: secretsPath(place),
      drivers,
      talos: ways.talos,
      kubernetes,
      clock,
      journal: new FileJournal(journalPath(folder, cluster.metadata.name)),
      ...(await imageWays(cli, place)),
      keepSnapshot: (bytes) => keepSnapshot(place, bytes, clock.now(), () => snapshotBucket(cli, place)),
      keepSecrets: async (bundle) => {
        await writeSecrets(place, bundle, around(cli));
        await ways.use(bundle);
      },
      prove: (bundle) => ways.prove(bundle),
      addons: new ClusterAddons({
        addons,
        clock,
        provideAccount: (api, kind) => provideAccount(cluster, drivers, api, kind),
      }),
    });
    return await work({ cluster: opened, drivers, kubernetes });
  } finally {
    await ways.close();
    for (const driver of drivers.values()) driver.close();
  }
}

/** How images are come by from here. */
export async function imageWays(cli: Cli, { cluster, machines }: ClusterFolder): Promise<ImageWays> {
  const [{ prepareImage }, { archiveUnpacker }, { urlDigests }] = await Promise.all([
    import("@gpve/talos/image/prepare-image.ts"),
    import("@gpve/talos/image/unpack-archive.ts"),
    import("@gpve/talos/image/url-digest.ts"),
  ]);
  return {
    prepareImage: (url) => prepareImage(cluster, machines, url, fetch),
    unpackArchive: archiveUnpacker({ fetch, exec }),
    urlDigest: urlDigests({ fetch, clock: cli.io.clock }),
  };
}

/** The cluster's secrets, made when there are none. */
export async function needSecrets(cli: Cli, place: ClusterFolder): Promise<SecretsBundle> {
  const { openSecrets } = await import("@gpve/talos/folder/secrets-store.ts");
  const { bundle, isNew } = await openSecrets(place, around(cli));
  if (isNew) cli.out.note(`Made the cluster's secrets: ${place.cluster.secrets.file}, encrypted.`);
  return bundle;
}

/** The same for what makes nothing: a cluster that was never made has none afterwards either. */
export async function secretsToLook(cli: Cli, place: ClusterFolder): Promise<SecretsBundle> {
  const { draftSecrets } = await import("@gpve/talos/folder/secrets-store.ts");
  return (await draftSecrets(place, around(cli))).bundle;
}
