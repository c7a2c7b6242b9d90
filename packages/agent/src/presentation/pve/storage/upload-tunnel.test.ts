import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { UploadSpool } from "../../../infrastructure/storage/upload-spool.ts";
import { uploadTunnels } from "./upload-tunnel.ts";

const directory = mkdtempSync(join(tmpdir(), "gpve-spool-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const wanted = new Set<string>();
const spool = new UploadSpool({
  directory,
  node: "n1",
  isWanted: (path) => wanted.has(path),
  reserveBytes: 0,
});
const UPLOAD = "TUNNEL /gpve/nodes/{node}/storage/{storage}/upload";
const open = (
  params: { readonly length?: number; readonly discard?: string },
  input: AsyncIterable<Uint8Array> = body(),
  signal = new AbortController().signal,
) => uploadTunnels(spool)[UPLOAD]({ node: "n1", storage: "local", ...params }, "joe@pve", input, signal);

async function* body(...chunks: (string | Error)[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) {
    if (chunk instanceof Error) throw chunk;
    yield Buffer.from(chunk);
  }
}

async function textOf(output: AsyncIterable<Uint8Array>): Promise<string> {
  let text = "";
  for await (const chunk of output) text += Buffer.from(chunk).toString();
  return text;
}

describe("uploads on a node", () => {
  test("are kept whole until somebody takes them, or nobody does", async () => {
    const { opened, output } = await open({ length: 10 }, body("hello ", "disk"));
    const { path } = opened as { path: string };
    expect(JSON.parse(await textOf(output))).toEqual({ bytes: 10 });
    expect(readFileSync(path, "utf8")).toBe("hello disk");
    wanted.add(path);
    await textOf((await open({ discard: path })).output);
    expect(existsSync(path)).toBe(true);
    wanted.clear();
    await open({ discard: path });
    expect(existsSync(path)).toBe(false);
  });

  test("leave nothing when they break off", async () => {
    const cut = await open({ length: 10 }, body("hello", new Error("gone")));
    await expect(textOf(cut.output)).rejects.toThrow("gone");
    const abort = new AbortController();
    abort.abort();
    const cancelled = await open({ length: 10 }, body("hello"), abort.signal);
    await expect(textOf(cancelled.output)).rejects.toThrow("abort");
    const ended = await open({ length: 10 }, body(), abort.signal);
    await expect(textOf(ended.output)).rejects.toThrow("abort");
    expect(readdirSync(directory)).toEqual([]);
  });

  test("are refused without room or length, and touch no other file", async () => {
    await expect(open({ length: 2 ** 52 })).rejects.toThrow(
      /not enough space for an upload of \d+ bytes.*'n1'/,
    );
    await expect(open({})).rejects.toThrow("how long");
    const outside = join(tmpdir(), "gpve-spool-outside");
    await open({ discard: outside });
    await open({ discard: join(directory, "../x") });
  });
});
