// Where agents reach a server, and what it shows clients, as it wrote it down when it started.
import type { RecordCollection } from "../record/collection.ts";

export interface ServerPlace {
  readonly name: string;
  /** "https://192.0.2.11:8006" */
  readonly url: string;
  /** Of the certificate that clients of its API are shown, "AA:BB:.."; absent where an older version noted it. */
  readonly fingerprint?: string;
}

export const placeCollection: RecordCollection<ServerPlace> = {
  prefix: "/gpve/servers/",
  decode: (json) => {
    const { name, url, fingerprint } = (json ?? {}) as Partial<ServerPlace>;
    if (typeof name !== "string" || typeof url !== "string") throw new Error("a server's place has no url");
    return { name, url, ...(typeof fingerprint === "string" ? { fingerprint } : {}) };
  },
};

/** In one way of writing, so that a server is told from another; undefined = nothing an agent could call. */
export function serverUrl(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url?.protocol === "https:" ? url.origin : undefined;
}
