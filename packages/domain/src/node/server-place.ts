// Where agents reach a server, as it wrote it down when it started.
import type { RecordCollection } from "../record/collection.ts";

export interface ServerPlace {
  readonly name: string;
  /** "https://192.0.2.11:8006" */
  readonly url: string;
}

export const placeCollection: RecordCollection<ServerPlace> = {
  prefix: "/gpve/servers/",
  decode: (json) => {
    const { name, url } = (json ?? {}) as Partial<ServerPlace>;
    if (typeof name !== "string" || typeof url !== "string") throw new Error("a server's place has no url");
    return { name, url };
  },
};

/** In one way of writing, so that a server is told from another; undefined = nothing an agent could call. */
export function serverUrl(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url?.protocol === "https:" ? url.origin : undefined;
}
