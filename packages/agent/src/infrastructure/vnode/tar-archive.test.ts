import { tmpdir } from "node:os";
import { exec } from "@gpve/kit/exec.ts";
import { expect, test } from "vitest";
import { tarArchive, type TarEntry } from "./tar-archive.ts";

const content = Buffer.from("text\n");
const long = `${"folder-with-a-long-name/".repeat(6)}file`;
const entries: readonly TarEntry[] = [
  { path: "tmp", kind: "folder" },
  { path: "etc", kind: "folder" },
  { path: "etc/passwd", kind: "file", content },
  { path: "bin/tool", kind: "file", content, mode: 0o755 },
  { path: "bin/link", kind: "link", to: "/bin/tool" },
  { path: long, kind: "file", content: Buffer.alloc(0), mode: 0o600 },
];

test("is one that tar reads: root's, of one moment, names of any length", async () => {
  const input = await tarArchive(entries);
  const { stdout } = await exec("tar", ["--numeric-owner", "--utc", "-tvf", "-"], { cwd: tmpdir(), input });
  expect(
    stdout
      .trimEnd()
      .split("\n")
      .map((line) => line.split(/\s+/).join(" ")),
  ).toEqual([
    "drwxrwxrwt 0/0 0 1970-01-01 00:00 tmp/",
    "drwxr-xr-x 0/0 0 1970-01-01 00:00 etc/",
    "-rw-r--r-- 0/0 5 1970-01-01 00:00 etc/passwd",
    "-rwxr-xr-x 0/0 5 1970-01-01 00:00 bin/tool",
    "lrwxr-xr-x 0/0 0 1970-01-01 00:00 bin/link -> /bin/tool",
    `-rw------- 0/0 0 1970-01-01 00:00 ${long}`,
  ]);
});

test("is the same every time", async () => {
  expect(await tarArchive(entries)).toEqual(await tarArchive(entries));
});
