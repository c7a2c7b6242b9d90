// Add-ons in a cluster: applied in one go, then looked at until they are well. What was applied is noted in the cluster
// itself, so that whoever comes next, with or without our files, sees it.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Addons } from "../engine/open-cluster.ts";
import type { WantedAddon } from "../engine/desired.ts";
import type { SeenAddon } from "../engine/world.ts";
import type { Kubernetes, KubernetesObject } from "../kubernetes/kubernetes.ts";
import { isKnownKind } from "../kubernetes/object-path.ts";
import { hasGate, isHealthy } from "./addon-health.ts";
import type { AddonKind } from "./addon-kind.ts";
import type { PreparedAddon } from "./prepare-addons.ts";

/** Gone with them would be what people keep. */
const KEPT_KINDS = ["Namespace", "CustomResourceDefinition", "PersistentVolume", "PersistentVolumeClaim"];
const CRD_MS = 60_000;
const PAUSE_MS = 1_000;

export interface ClusterAddonsDeps {
  readonly addons: readonly PreparedAddon[];
  readonly clock: Clock;
  /** Makes what the add-on needs on the platform, and its secret in the cluster. */
  readonly provideAccount: (kubernetes: Kubernetes, kind: AddonKind) => Promise<void>;
}

interface Note {
  readonly digest: string;
  readonly objects: readonly KubernetesObject[];
}

export class ClusterAddons implements Addons {
  readonly wanted: readonly WantedAddon[];
  readonly #deps: ClusterAddonsDeps;

  constructor(deps: ClusterAddonsDeps) {
    this.#deps = deps;
    this.wanted = wantedOf(deps.addons);
  }

  async apply(kubernetes: Kubernetes, name: string): Promise<void> {
    const addon = this.#deps.addons.find(({ kind }) => kind.name === name);
    if (addon === undefined) throw new AppError("internal.error", `${name} is no add-on of this cluster`);
    const { kind, digest, version, objects } = addon;
    const before = await readNote(kubernetes, name);
    const isEarly = (object: KubernetesObject): boolean =>
      object.kind === "Namespace" || object.kind === "CustomResourceDefinition";
    for (const object of objects.filter(isEarly)) await kubernetes.apply(object);
    await this.#untilKnown(kubernetes, objects);
    await this.#deps.provideAccount(kubernetes, kind);
    for (const object of objects.filter((each) => !isEarly(each))) await applied(kubernetes, object);
    await kubernetes.apply(noteObject(name, version, { digest, objects: objects.map(bare) }));
    for (const old of before?.objects ?? []) {
      const isGone = !objects.some((object) => objectName(object) === objectName(old));
      if (isGone && !KEPT_KINDS.includes(old.kind)) await kubernetes.delete(old);
    }
  }

  async seen(kubernetes: Kubernetes): Promise<ReadonlyMap<string, SeenAddon>> {
    const found = await Promise.all(
      this.#deps.addons.map(async ({ kind: { name }, digest }): Promise<readonly [string, SeenAddon][]> => {
        const note = await readNote(kubernetes, name);
        if (note === undefined) return [];
        // One that is to be applied again anyway need not be looked at.
        const isWell = note.digest === digest && (await unwell(kubernetes, note)).length === 0;
        return [[name, { digest: note.digest, isHealthy: isWell }]];
      }),
    );
    return new Map(found.flat());
  }

  /** Kinds are usable a moment after they were defined. */
  async #untilKnown(kubernetes: Kubernetes, objects: readonly KubernetesObject[]): Promise<void> {
    const { clock } = this.#deps;
    const kinds = objects.filter(({ kind }) => kind === "CustomResourceDefinition");
    const until = clock.monotonic() + CRD_MS;
    for (const object of kinds) {
      while (!isHealthy(object.kind, await kubernetes.read(object))) {
        if (clock.monotonic() >= until)
          throw new AppError("resource.busy", `${object.metadata.name} is not established yet`);
        await clock.sleep(PAUSE_MS);
      }
    }
  }
}

export function wantedOf(addons: readonly PreparedAddon[]): readonly WantedAddon[] {
  return addons.map(({ kind, version, source, digest, objects }) => ({
    name: kind.name,
    digest,
    isNetwork: kind.isNetwork === true,
    version,
    ...given({ source }),
    objects: objects.map(objectName),
  }));
}

/** Objects of an add-on that are not as they should be. */
async function unwell(kubernetes: Kubernetes, { objects }: Note): Promise<readonly string[]> {
  const looked = await Promise.all(
    objects.filter(hasGate).map(async (object) => {
      const found = await kubernetes.read(object);
      return isHealthy(object.kind, found) ? [] : [objectName(object)];
    }),
  );
  return looked.flat();
}

/** A kind that an operator defines by itself, or a webhook whose pods still start: not yet is no failure. */
async function applied(kubernetes: Kubernetes, object: KubernetesObject): Promise<void> {
  try {
    await kubernetes.apply(object);
  } catch (err) {
    const isWebhook = isAppError(err) && /failed calling webhook/.test(err.message);
    const isMissing = isAppError(err, "object.not_found") && !isKnownKind(object);
    if (!isWebhook && !isMissing) throw err;
    throw new AppError("resource.busy", `${objectName(object)} cannot be applied yet`, { cause: err });
  }
}

export function objectName({ apiVersion, kind, metadata }: KubernetesObject): string {
  const place = metadata.namespace === undefined ? "" : `${metadata.namespace}/`;
  return `${apiVersion} ${kind} ${place}${metadata.name}`;
}

function bare({ apiVersion, kind, metadata: { name, namespace } }: KubernetesObject): KubernetesObject {
  return { apiVersion, kind, metadata: { name, ...given({ namespace }) } };
}

function noteObject(name: string, version: string, { digest, objects }: Note): KubernetesObject {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: `gpve-addon-${name}`, namespace: "kube-system", labels: { "gpve.io/addon": name } },
    data: { digest, version, objects: JSON.stringify(objects) },
  };
}

async function readNote(kubernetes: Kubernetes, name: string): Promise<Note | undefined> {
  const found = await kubernetes.read(noteObject(name, "", { digest: "", objects: [] }));
  const data = found?.["data"];
  if (!isObject(data)) return undefined;
  return { digest: String(data["digest"]), objects: parsed(data["objects"]) };
}

function parsed(text: unknown): readonly KubernetesObject[] {
  try {
    const tree = JSON.parse(String(text)) as unknown;
    return Array.isArray(tree) ? (tree as KubernetesObject[]) : [];
  } catch {
    return [];
  }
}
