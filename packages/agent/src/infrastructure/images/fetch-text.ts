// A small text from a URL, such as a publisher's list of checksums.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { HttpFetcher } from "../storage/fetch/http-fetcher.ts";

const MOST_BYTES = 4 * 1024 * 1024;

export async function fetchText(
  fetcher: Pick<HttpFetcher, "download">,
  url: string,
  signal: AbortSignal,
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "gpve-text-"));
  try {
    const path = join(folder, "text");
    await fetcher.download(url, path, {
      verifyCertificates: true,
      signal,
      progress: () => undefined,
      mostBytes: MOST_BYTES,
    });
    return readFileSync(path, "utf8");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
