// Level L2: every pod of a worker in a small machine of its own, which Kata Containers makes. gpve brings no Kata; it takes the
// one that a node has, and refuses the level where it has none that works.
import type { Capability } from "../../node/runtime.ts";
import type { ClusterObject } from "./cluster-dns.ts";

/** A Kata that a node has. */
export interface KataRuntime {
  readonly shim: string;
  readonly config: string;
}

/** As nodes report it. */
export const KATA_CAPABILITY = "kata";
const NAME = "kata";

/** What workers of level L2 offer by name. Pods that name no class run under Kata too: there is nothing else on such a worker. */
export const kataRuntimeClass: ClusterObject = {
  path: "/apis/node.k8s.io/v1/runtimeclasses",
  body: {
    apiVersion: "node.k8s.io/v1",
    kind: "RuntimeClass",
    metadata: { name: NAME, labels: { "app.kubernetes.io/managed-by": "gpve" } },
    handler: NAME,
    // What the machine takes beside what its pod asks for, as upstream counts it for QEMU.
    overhead: { podFixed: { cpu: "250m", memory: "160Mi" } },
  },
};

/**
 * containerd's runtimes on a worker of level L2. Its own default is called runc and cannot be taken away: it leads to Kata as
 * well, so that no RuntimeClass of a tenant leads past it. Annotations of pods are not passed on: they could name programs.
 */
export function kataRuntimes(section: string, { shim, config }: KataRuntime): readonly string[] {
  const text = (value: string): string => JSON.stringify(value);
  const runtimes = ["runc", NAME].flatMap((name) => [
    `[${section}.runtimes.${name}]`,
    '  runtime_type = "io.containerd.kata.v2"',
    `  runtime_path = ${text(shim)}`,
    "  privileged_without_host_devices = true",
    `[${section}.runtimes.${name}.options]`,
    `  ConfigPath = ${text(config)}`,
  ]);
  return [`[${section}]`, `  default_runtime_name = ${text(NAME)}`, ...runtimes];
}

/** Whether a node can have such workers, and if not why; "untold" = it has just begun, and has to be asked. */
export function kataOf(
  capabilities: readonly Capability[] | undefined,
): "able" | "untold" | { readonly refusal: string } {
  const found = capabilities?.find(({ name }) => name === KATA_CAPABILITY);
  if (found === undefined) return "untold";
  if (found.available) return "able";
  return { refusal: `${found.detail} (${found.fix ?? "see gpvectl node capabilities"})` };
}

/** What a request for the level is refused with. */
export function kataRefused(reasons: string): string {
  return `L2 needs Kata Containers (containerd-shim-kata-v2, with its RuntimeClass) on the node: ${reasons}. L1 (runc) and L3 (workers that are machines) are offered`;
}
