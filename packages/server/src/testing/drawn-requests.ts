// Requests as they were drawn before there was a product: appendix C of the design that `../shared` has, or GPVE_SEEDS.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

export interface DrawnRequest {
  readonly method: string;
  /** Below the face's prefix. */
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>> | undefined;
}

export interface Drawing {
  /** Why there is none here. */
  readonly lacking: string | undefined;
  readonly requests: readonly DrawnRequest[];
  /** Of this method, whose path ends so. */
  find(method: string, end: string): DrawnRequest;
}

/** `part`: "C.1" has the requests of PVE's API, "C.2" those of /api/v1. */
export function drawnRequests(part: "C.1" | "C.2", prefix: "/api2/json" | "/api/v1"): Drawing {
  const folder = resolve(
    process.env["GPVE_SEEDS"] ?? join(import.meta.dirname, "../../../../../shared/seeds"),
  );
  const file = existsSync(folder) ? readdirSync(folder).find((name) => name.startsWith("004_")) : undefined;
  const requests =
    file === undefined ? [] : requestsIn(readFileSync(join(folder, file), "utf8"), part, prefix);
  return {
    lacking: file === undefined ? `no drawing in ${folder}; GPVE_SEEDS may name another folder` : undefined,
    requests,
    find: (method, end) => {
      const found = requests.find((each) => each.method === method && each.path.endsWith(end));
      if (found === undefined) throw new Error(`nothing drawn for ${method} …${end}`);
      return found;
    },
  };
}

function requestsIn(text: string, part: string, prefix: string): readonly DrawnRequest[] {
  const [, section = ""] = text.split(new RegExp(`^### ${part.replace(".", "\\.")}[^\n]*\n+\`\`\`\n`, "m"));
  return (section.split("```")[0] ?? "").split(/^# .*$/m).flatMap((each) => {
    const [, method = "", path = "", rest = ""] = /^([A-Z]+) (\S+)\s*([\s\S]*)$/.exec(each.trim()) ?? [];
    if (!path.startsWith(prefix)) return [];
    const at = rest.indexOf("{");
    const body = at === -1 ? undefined : (JSON.parse(rest.slice(at)) as DrawnRequest["body"]);
    return [{ method, path: path.slice(prefix.length), body }];
  });
}
