import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { taskLogConformance } from "../testing/task-log-conformance.ts";
import { BLOCK } from "./line-index.ts";
import { TaskLogFiles } from "./task-log-files.ts";

const upid = "UPID:n1:00000001:00000001:65432100:qmstart:100:root@pam:";
let directory: string;
let failures: string[];
let opened: TaskLogFiles[];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "gpve-task-log-"));
  failures = [];
  opened = [];
});
afterEach(async () => {
  for (const each of opened) await each.close();
  expect(openFiles()).toEqual([]);
  rmSync(directory, { recursive: true, force: true });
});

const files = (below = directory): TaskLogFiles => {
  const logger = { warn: (fields: object) => void failures.push(JSON.stringify(fields)), error: () => {} };
  const logs = new TaskLogFiles({ directory: below, logger });
  opened.push(logs);
  return logs;
};

/** Files of the test that this process has open. */
function openFiles(): string[] {
  const paths = readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return []; // the folder that was just read
    }
  });
  return paths.filter((path) => path.startsWith(directory));
}

const pathOf = (name = upid): string => {
  const found = readdirSync(directory, { recursive: true }).find((entry) => String(entry).endsWith(name));
  return join(directory, String(found));
};

async function text(stream: AsyncIterable<Uint8Array> | undefined): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream ?? []) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

async function write(lines: number, logs = files()): Promise<TaskLogFiles> {
  const log = logs.open(upid);
  for (let n = 1; n <= lines; n++) log.append(`line ${n} ünïcode`);
  await log.flush();
  return logs;
}

describe("as any place of task logs", () => {
  taskLogConformance(() => {
    const logs = files();
    return { logs, read: async (id) => (await logs.read(id, 0, 0))?.rows.map(({ t }) => t) };
  });
});

describe("reading", () => {
  it("pages through a running and a finished log alike", async () => {
    const logs = await write(3);
    expect(await logs.read(upid, 1, 1)).toEqual({ rows: [{ n: 2, t: "line 2 ünïcode" }], total: 3 });
    await logs.open(upid).finish("TASK OK");
    expect(await logs.read(upid, 2, 0)).toEqual({
      rows: [
        { n: 3, t: "line 3 ünïcode" },
        { n: 4, t: "TASK OK" },
      ],
      total: 4,
    });
    expect(await logs.read(upid, 9, 50)).toEqual({ rows: [], total: 4 });
    expect(await text(logs.stream(upid))).toBe("line 1 ünïcode\nline 2 ünïcode\nline 3 ünïcode\nTASK OK\n");
  });

  it("knows no log that was never written", async () => {
    expect(await files().read(upid, 0, 50)).toBeUndefined();
    expect(files().stream(upid)).toBeUndefined();
  });

  it("gives any page of a long log, with and without its index, whatever the index says", async () => {
    const total = BLOCK * 3 + 17;
    await (await write(total)).open(upid).finish("TASK OK");
    const checkPages = async (): Promise<void> => {
      await fc.assert(
        fc.asyncProperty(fc.nat(total + 5), fc.nat(BLOCK * 2), async (start, limit) => {
          const page = await files().read(upid, start, limit);
          const count = limit === 0 ? total + 1 - start : Math.min(limit, total + 1 - start);
          expect(page?.total).toBe(total + 1);
          expect(page?.rows).toHaveLength(Math.max(0, count));
          for (const { n, t } of page?.rows ?? [])
            expect(t).toBe(n > total ? "TASK OK" : `line ${n} ünïcode`);
        }),
        { numRuns: 40 },
      );
    };
    await checkPages();
    const index = `${pathOf()}.idx`;
    truncateSync(index, 11);
    await checkPages();
    rmSync(index);
    await checkPages();
    writeFileSync(index, Buffer.alloc(64, 0xff));
    await checkPages();
  });
});

describe("crashes", () => {
  it("ends half a line before it writes on, and mends the index", async () => {
    await write(BLOCK * 2 + 5);
    appendFileSync(pathOf(), "half");
    rmSync(`${pathOf()}.idx`);
    const logs = files();
    expect((await logs.read(upid, BLOCK * 2 + 5, 1))?.rows).toEqual([{ n: BLOCK * 2 + 6, t: "half" }]);
    logs.open(upid).append("after");
    await logs.open(upid).finish("TASK ERROR: interrupted");
    const page = await files().read(upid, BLOCK * 2 + 4, 0);
    expect(page?.rows.map(({ t }) => t)).toEqual([
      `line ${BLOCK * 2 + 5} ünïcode`,
      "half",
      "after",
      "TASK ERROR: interrupted",
    ]);
  });

  it("writes the last line once, however often it is told", async () => {
    const late = (await write(1)).open(upid);
    await late.finish("TASK OK");
    late.append("too late");
    await late.flush();
    await files().open(upid).finish("TASK OK");
    const logs = files();
    await logs.open(upid).finish("TASK OK");
    expect((await logs.read(upid, 0, 0))?.total).toBe(2);
  });
});

describe("writing", () => {
  it("keeps a line a line", async () => {
    const logs = files();
    const log = logs.open(upid);
    log.append("a\r\nb");
    log.append("x".repeat(5_000));
    await log.flush();
    const page = await logs.read(upid, 0, 0);
    expect(page?.rows[0]?.t).toBe("a b");
    expect(page?.rows[1]?.t).toHaveLength(4_003);
  });

  it("names long and odd ids by their hash, and removes all of a log", async () => {
    const logs = files();
    for (const id of [`UPID:${"x".repeat(300)}`, "../escape", "a/b"]) {
      const log = logs.open(id);
      log.append("here");
      await log.finish("TASK OK");
      expect((await logs.read(id, 0, 1))?.rows[0]?.t).toBe("here");
      await logs.remove(id);
      expect(await logs.read(id, 0, 1)).toBeUndefined();
    }
  });

  it("holds no file of a log that was removed while it was written", async () => {
    const logs = await write(1);
    expect(openFiles()).toEqual([pathOf()]);
    await logs.remove(upid);
    expect(openFiles()).toEqual([]);
  });

  it("reports a log that cannot be written and goes on", async () => {
    writeFileSync(join(directory, "file"), "");
    const logs = files(join(directory, "file"));
    const log = logs.open(upid);
    log.append("lost");
    await log.flush();
    await log.finish("TASK OK");
    expect(failures).toHaveLength(2);
    expect(failures[0]).toContain("ENOTDIR");
  });

  it("an empty log is a log", async () => {
    const logs = files();
    const log = logs.open(upid);
    log.append("");
    await log.flush();
    truncateSync(pathOf());
    expect(await text(files().stream(upid))).toBe("");
    expect(await files().read(upid, 0, 50)).toEqual({ rows: [], total: 0 });
  });
});
