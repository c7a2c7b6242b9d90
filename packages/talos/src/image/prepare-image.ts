// An Image Factory builds what it was told about: the schematic is registered before the platform fetches the image.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import { schematicId, writeSchematic } from "./schematic.ts";

export type Fetch = (
  url: string,
  init: { readonly method: string; readonly body?: string; readonly signal: AbortSignal },
) => Promise<{ readonly status: number }>;

const TIMEOUT_MS = 30_000;

/** From where the image can be fetched: the factory or the first mirror that takes its schematic. */
export async function prepareImage(
  { image }: Cluster,
  machines: readonly Machine[],
  url: string,
  fetch: Fetch,
): Promise<string> {
  const id = /\/image\/([0-9a-f]{64})\//.exec(url)?.[1];
  const text = schematics(image, machines).get(id ?? "");
  const factory = image.factory.replace(/\/+$/, "");
  if (text === undefined) return url;
  for (const base of [factory, ...image.mirrors.map((mirror) => mirror.replace(/\/+$/, ""))]) {
    const status = await register(base, text, fetch);
    if (status !== undefined && status < 300) return url.replace(factory, base);
    if (status !== undefined && status < 500) {
      throw new AppError("request.invalid", `${base} refuses the image's schematic with status ${status}`, {
        data: { finding: "image-refused" },
      });
    }
  }
  // Not reachable from here; perhaps from the platform, which says why when it is not.
  return url;
}

function schematics({ extensions, kernelArgs }: Cluster["image"], machines: readonly Machine[]) {
  return new Map(
    machines.map((machine) => {
      const schematic = { extensions: [...extensions, ...machine.extensions], kernelArgs };
      return [schematicId(schematic), writeSchematic(schematic)];
    }),
  );
}

/** undefined: nobody answers. */
async function register(base: string, body: string, fetch: Fetch): Promise<number | undefined> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    return (await fetch(`${base}/schematics`, { method: "POST", body, signal })).status;
  } catch {
    return undefined;
  }
}
