// How the parts of a control plane are started: program, arguments, and the files that are there for it.
import { given } from "@gpve/contracts/given.ts";
import type { ComponentStore } from "@gpve/domain/component/ports.ts";
import type { GuestFile, GuestStart } from "@gpve/domain/guest/guest-processes.ts";
import { controlPlaneCommand } from "@gpve/domain/vcluster/control-plane.ts";
import { API_BALANCER, type ClusterPart } from "@gpve/domain/vcluster/cluster-part.ts";
import { auditFiles } from "./cluster-audit.ts";
import { guardFiles } from "./cluster-guard.ts";
import { issuerConfig, issuerFiles } from "./cluster-issuer.ts";
import type { ClusterStores, StorePlace } from "./cluster-stores.ts";
import type { SelfProgram } from "./store-process.ts";

export interface PartCommandDeps {
  readonly components: Pick<ComponentStore, "program">;
  readonly stores: Pick<ClusterStores, "etcd" | "files" | "access">;
  readonly self: SelfProgram;
}

/** Of the process of an etcd that can have a standby. */
export interface EtcdNote {
  /** It was started to go on without that one's vote. */
  readonly alone?: number;
}

/** `folder`: of the cluster. */
export async function partCommand(
  { components, stores, self }: PartCommandDeps,
  part: ClusterPart,
  at: StorePlace & { readonly folder: string },
): Promise<Pick<GuestStart, "program" | "args" | "files" | "workFolder" | "note">> {
  const { cluster, keys, address, folder } = at;
  const own = (path: string): GuestFile => ({ path, access: "ro", owned: true });
  if (part === API_BALANCER) {
    const authority = keys.trustFile;
    const folders = self.folders.map((path): GuestFile => ({ path, access: "ro" }));
    const args = [...self.args, "vc-balancer", address, authority];
    return { program: self.program, args, files: [...folders, own(authority)] };
  }
  if (part === "etcd") {
    const { program, args, files, dataFolder, pair } = await stores.etcd(at);
    const data: GuestFile = { path: dataFolder, access: "rw", deep: true };
    if (pair === undefined) return { program, args, files: [...files.map(own), data] };
    const { peers, alone } = pair;
    const shared: GuestFile = { path: peers, access: "rw", owned: false };
    const note: EtcdNote = { ...given({ alone }) };
    return { program, args, files: [...files.map(own), data, shared], workFolder: peers, note };
  }
  const {
    args,
    files,
    writable = [],
  } = controlPlaneCommand(part, cluster.spec, {
    address,
    pki: keys.file,
    trust: keys.trustFile,
    kubeconfig: (user) => keys.file(`${user}.kubeconfig`),
    store: stores.access(at),
    audit: auditFiles(folder),
    ...given({ authentication: issuerConfig(folder, cluster.spec) }),
    ...guardFiles(folder, cluster),
  });
  const written = writable.map((path): GuestFile => ({ path, access: "rw", deep: true }));
  const program = components.program("kubernetes", cluster.version, part);
  const more =
    part === "kube-apiserver" ? [...stores.files(cluster), ...issuerFiles(folder, cluster.spec)] : [];
  return { program, args, files: [...files.map(own), ...written, ...more] };
}
