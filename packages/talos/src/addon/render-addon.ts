// From an add-on's source to the objects that are applied.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { type Exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { stringify } from "yaml";
import type { Cluster } from "../cluster/cluster.ts";
import type { KubernetesObject } from "../kubernetes/kubernetes.ts";
import type { AddonKind } from "./addon-kind.ts";
import { type AddonStore, sha256Of } from "./addon-store.ts";
import { namespaceObject } from "./own-objects.ts";
import { parseManifest } from "./parse-manifest.ts";

export interface RenderDeps {
  readonly cluster: Cluster;
  readonly store: AddonStore;
  readonly exec: Exec;
}

/** Namespaces that are there in every cluster. */
const GIVEN_NAMESPACES = ["default", "kube-system"];

export async function renderAddon(
  kind: AddonKind,
  source: { readonly kind: "manifest" | "chart"; readonly bytes: Uint8Array } | undefined,
  deps: RenderDeps,
): Promise<readonly KubernetesObject[]> {
  const { cluster } = deps;
  const { name, namespace, adjust, isPrivileged = false } = kind;
  const text = source === undefined ? "" : await sourceText(kind, source, deps);
  const fetched = parseManifest(text, name, namespace);
  const isAdjusted = adjust === undefined ? fetched : fetched.map((object) => adjust(object, cluster));
  const own = kind.objects?.(cluster) ?? [];
  const objects = [...isAdjusted.filter((object) => !own.some((other) => isSame(object, other))), ...own];
  if (GIVEN_NAMESPACES.includes(namespace)) return objects;
  const space = objects.find((object) => object.kind === "Namespace" && object.metadata.name === namespace);
  if (space === undefined) return [namespaceObject(namespace, isPrivileged), ...objects];
  return objects.map((object) => (object === space && isPrivileged ? privileged(object) : object));
}

const isSame = (a: KubernetesObject, b: KubernetesObject): boolean =>
  a.kind === b.kind && a.metadata.name === b.metadata.name && a.metadata.namespace === b.metadata.namespace;

function privileged(object: KubernetesObject): KubernetesObject {
  const { metadata } = object;
  const labels = isObject(metadata["labels"]) ? metadata["labels"] : {};
  const more = { "pod-security.kubernetes.io/enforce": "privileged" };
  return { ...object, metadata: { ...metadata, labels: { ...labels, ...more } } };
}

async function sourceText(
  kind: AddonKind,
  source: { readonly kind: "manifest" | "chart"; readonly bytes: Uint8Array },
  deps: RenderDeps,
): Promise<string> {
  if (source.kind === "manifest") return Buffer.from(source.bytes).toString("utf8");
  const { cluster, store } = deps;
  const values = stringify({ ...kind.values?.(cluster), ...cluster.addons.values[kind.name] });
  const version = cluster.versions.kubernetes.replace(/^v/, "");
  const key = sha256Of([sha256Of(source.bytes), sha256Of(values), version, kind.namespace].join(" "));
  const known = store.rendered(key);
  if (known !== undefined) return known;
  const text = await helmTemplate(kind, source.bytes, values, version, deps);
  store.keepRendered(key, text);
  return text;
}

/** Values go through stdin: they may hold secrets. */
async function helmTemplate(
  { name, namespace }: AddonKind,
  chart: Uint8Array,
  values: string,
  version: string,
  { exec, cluster }: RenderDeps,
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "gpve-chart-"));
  try {
    const file = join(folder, `${name}.tgz`);
    writeFileSync(file, chart);
    const kinds = cluster.addons.monitoring.prometheusCRDs
      ? ["--api-versions", "monitoring.coreos.com/v1"]
      : [];
    const args = ["template", name, file, "--namespace", namespace, "--include-crds", "--skip-tests"];
    const { stdout } = await exec("helm", [...args, "--kube-version", version, ...kinds, "--values", "-"], {
      input: values,
      timeoutMs: 120_000,
      maxOutputBytes: 64 * 1024 * 1024,
      env: { ...MINIMAL_ENV, HOME: folder },
    });
    return stdout;
  } catch (err) {
    if (!isAppError(err, "feature.unsupported")) throw notRendered(name, err);
    throw new AppError("feature.unsupported", `${name} is a chart, and helm is not installed here`, {
      cause: err,
      data: { finding: "helm-missing" },
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function notRendered(name: string, cause: unknown): AppError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new AppError("config.invalid", `the chart of ${name} does not render: ${why}`, {
    cause,
    data: { finding: "addon-broken" },
  });
}
