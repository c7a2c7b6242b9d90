// What of a cluster's access lies in the files where talosctl and kubectl look.
import { join } from "node:path";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import type { SecretsBundle } from "@gpve/talos/secrets/bundle.ts";
import type { OwnCertificate } from "@gpve/talos/status/cluster-status.ts";
import type { Cli } from "../../command.ts";

export type AccessKind = "talosconfig" | "kubeconfig";

/** kubectl reads several, and writes to the first of them. */
export function usualPlaces({ io: { env, homeDir } }: Pick<Cli, "io">, kind: AccessKind): readonly string[] {
  const usual = kind === "talosconfig" ? join(homeDir, ".talos", "config") : join(homeDir, ".kube", "config");
  const named = kind === "talosconfig" ? env["TALOSCONFIG"] : env["KUBECONFIG"];
  const places = kind === "talosconfig" ? [named ?? ""] : (named ?? "").split(":");
  const own = places.filter((path) => path !== "");
  return own.length === 0 ? [usual] : own;
}

export async function ownCertificates(
  cli: Pick<Cli, "io">,
  secrets: SecretsBundle | undefined,
  former: readonly string[] = [],
): Promise<readonly OwnCertificate[]> {
  if (secrets === undefined) return [];
  const { certificatesIn } = await import("@gpve/talos/access/merged-certificates.ts");
  return (["talosconfig", "kubeconfig"] as const).flatMap((kind) =>
    usualPlaces(cli, kind).flatMap((path) => {
      const found = certificatesIn(kind, textOf(path) ?? "", secrets, former);
      return found.map(({ context, crt }) => ({ name: `${context} in ${path}`, crt }));
    }),
  );
}

/** One that may not be read is not what is asked about. */
function textOf(path: string): string | undefined {
  try {
    return readTextFile(path);
  } catch {
    return undefined;
  }
}
