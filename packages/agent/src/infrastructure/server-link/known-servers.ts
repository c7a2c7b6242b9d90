// Which servers this node turns to: those that its configuration names, with which it began, and those that there are now,
// as servers have noted them. The latter are kept for the next start: a node whose configuration names servers that are long
// gone still finds its cluster. Whoever answers there must show the certificate of a server, as everywhere.
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { messageOf } from "@gpve/contracts/errors.ts";
import { serverUrl } from "@gpve/domain/node/server-place.ts";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";

export interface KnownServersDeps {
  readonly configured: readonly string[];
  readonly file: string;
  readonly log: RequestLogger;
}

export class KnownServers {
  readonly #deps: KnownServersDeps;
  #told: readonly string[];

  constructor(deps: KnownServersDeps) {
    this.#deps = deps;
    this.#told = this.#kept() ?? [];
  }

  /** Each once. */
  urls(): readonly string[] {
    const { configured } = this.#deps;
    const named = new Set(configured.map((url) => serverUrl(url) ?? url));
    return [...configured, ...this.#told.filter((url) => !named.has(url))];
  }

  /**
   * All servers that there are, as one of them says. True when that is news. None is no news: a server of an older version
   * shows nobody.
   */
  tell(urls: readonly string[]): boolean {
    const told = [...new Set(urls.flatMap((url) => serverUrl(url) ?? []))].toSorted();
    if (told.length === 0 || told.join() === this.#told.join()) return false;
    this.#told = told;
    const { file, log } = this.#deps;
    try {
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
      writeFileAtomic(file, `${JSON.stringify({ servers: told })}\n`);
    } catch (err) {
      log.warn({ file, err: messageOf(err) }, "which servers there are cannot be kept for the next start");
    }
    return true;
  }

  /** For another process of this node: what was told since. */
  readAgain(): void {
    this.#told = this.#kept() ?? this.#told;
  }

  /** undefined = it cannot be read now. What is lost is told again soon. */
  #kept(): readonly string[] | undefined {
    try {
      const { servers } = JSON.parse(readTextFile(this.#deps.file) ?? "{}") as { servers?: unknown };
      const texts = Array.isArray(servers) ? servers.filter((each) => typeof each === "string") : [];
      return texts.flatMap((url) => serverUrl(url) ?? []);
    } catch {
      return undefined;
    }
  }
}
