import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openLine } from "./line-process.ts";

const place = { device: "vmbr0", mark: 7, address: "10.0.0.2", port: 80 };
const signal = new AbortController().signal;
let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-line-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** In the supervisor's place. */
function program(script: string): [string] {
  const path = join(folder, `p${Math.floor(performance.now() * 1000)}`);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return [path];
}

test("a line that is open carries bytes both ways, from the first on", async () => {
  const line = await openLine(program('printf "open\\n%s:" "$*"; exec cat'), place, signal);
  await line.write(Buffer.from("hello"));
  let heard = "";
  for await (const chunk of line.output) {
    heard += Buffer.from(chunk).toString();
    if (heard.endsWith("hello")) break;
  }
  expect(heard).toBe("dial vmbr0 7 10.0.0.2 80:hello");
  line.close();
  line.close();
  await line.closed;
  await expect(line.write(Buffer.from("x"))).rejects.toThrow("the line is closed");
});

test("one that cannot be had says why", async () => {
  await expect(
    openLine(program("echo failed connect: Connection refused"), place, signal),
  ).rejects.toMatchObject({ code: "node.unavailable", message: "Connection refused" });
  await expect(openLine(program("exit 0"), place, signal)).rejects.toThrow("without a word");
  await expect(openLine(program("head -c 9000 /dev/zero"), place, signal)).rejects.toThrow("without a word");
  await expect(openLine([join(folder, "none")], place, signal)).rejects.toThrow("without a word");
});

test("whoever goes before it stands ends it", async () => {
  const abort = new AbortController();
  const opening = openLine(program("exec sleep 60"), place, abort.signal);
  abort.abort(new Error("gone"));
  await expect(opening).rejects.toThrow("gone");
});

test("a guest that reads nothing holds the writer up, not more", async () => {
  const line = await openLine(program("echo open; exec sleep 0.3"), place, signal);
  await line.write(Buffer.alloc(1024 * 1024));
  await line.closed;
  await expect(line.write(Buffer.from("x"))).rejects.toThrow("the line is closed");
});
