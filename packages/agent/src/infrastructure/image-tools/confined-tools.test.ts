import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { exec, type Exec } from "@gpve/kit/exec.ts";
import { CAN_CONFINE, confinedImageTools, TOOLS_INSTANCE } from "../../testing/confined-image-tools.ts";
import { prepareFile } from "../guest-process/guest-view.ts";
import { GUESTS_GROUP } from "../guest-process/shared-files.ts";
import type { ImageTools } from "./image-tools.ts";
import { ReadableFiles, TOOL_GROUP } from "./readable-files.ts";

const GUEST = 0x4000_1234;

function commandOf(pid: string): string {
  try {
    return /^\d+$/.test(pid) ? readFileSync(`/proc/${pid}/cmdline`, "utf8") : "";
  } catch {
    return ""; // ended while we looked
  }
}

/** Cgroups of the tools of this process. */
function groupsLeft(): string[] {
  const mounts = ["", ...readdirSync("/sys/fs/cgroup")].map((name) => join("/sys/fs/cgroup", name));
  return mounts.map((mount) => join(mount, `gpve-${TOOLS_INSTANCE}`)).filter((path) => existsSync(path));
}

describe.skipIf(!CAN_CONFINE)("a confined image tool (skipped: only root can confine)", () => {
  let folder: string;
  let tools: ImageTools;
  const at = (name: string): string => join(folder, name);
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-tools-"));
    tools = confinedImageTools(folder);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  beforeEach(() => {
    writeFileSync(at("mine"), "mine", { mode: 0o600 });
    chownSync(at("mine"), GUEST, GUEST);
    writeFileSync(at("secret"), "secret", { mode: 0o644 });
    chmodSync(folder, 0o755);
  });
  const run = (program: string, args: string[], files: Parameters<ImageTools>[2] = [], options = {}) =>
    tools(program, args, files, options);

  it("sees the files it is named and no other, whoever may read those", async () => {
    const mine = [{ path: at("mine"), access: "ro" }] as const;
    expect((await run("cat", [at("mine")], mine)).stdout).toBe("mine");
    for (const path of [at("secret"), "/etc/passwd", "/proc/self/status", "/root"])
      await expect(run("cat", [path], mine)).rejects.toThrow("cat failed with exit code 1");
    expect((await run("ls", ["/"])).stdout.trim().split("\n").toSorted()).toEqual(
      ["dev", "lib", "lib64", "tmp", "usr"].filter((name) => name !== "lib64" || process.arch === "x64"),
    );
  });

  it("is a user that nobody else is, not even another tool on the same image, without capabilities", async () => {
    const mine = [{ path: at("mine"), access: "rw" }] as const;
    const id = async (files: Parameters<ImageTools>[2] = []): Promise<number> =>
      Number(
        (await run("bash", ["-c", "echo $UID; read -t 0.3 < /dev/zero"], files, { okCodes: [0, 1, 142] }))
          .stdout,
      );
    const uids = await Promise.all([id(mine), id(mine), id(), id()]);
    expect(new Set(uids).size).toBe(4);
    for (const uid of uids) {
      expect(uid).toBeGreaterThanOrEqual(0x3fff_0000);
      expect(uid).toBeLessThan(0x3fff_ff00);
    }
    await expect(run("chown", ["0:0", at("mine")], mine)).rejects.toThrow("Operation not permitted");
    // It is the guest's as it was.
    expect(statSync(at("mine"))).toMatchObject({ uid: GUEST, gid: GUEST, mode: 0o100600 });
  });

  it("sees no process but its own, and whatever it starts ends with it", async () => {
    const script = "echo $$ $PPID; while :; do read -t 9 < /dev/zero; done & exit 0";
    expect((await run("bash", ["-c", script])).stdout).toBe("1 0\n");
    await expect(run("bash", ["-c", "kill -9 2; kill -0 2"])).rejects.toThrow("No such process");
    expect(readdirSync("/proc").filter((pid) => commandOf(pid).includes("while :; do read"))).toEqual([]);
  });

  it("has only so many processes and so much memory, all of it together", async () => {
    const few = confinedImageTools(folder, { bounds: { memoryBytes: 64 * 1024 ** 2, tasks: 10 } });
    const bomb = "for i in {1..40}; do read -t 2 < /dev/zero & done; wait";
    await expect(few("bash", ["-c", bomb], [], { timeoutMs: 20_000 })).rejects.toThrow(
      /fork: (?:retry: )?Resource temporarily unavailable/,
    );
    await expect(few("tail", ["/dev/zero"], [], { timeoutMs: 20_000 })).rejects.toThrow(
      "tail took more memory than image tools may (64 MiB)",
    );
    // It leaves no group, and another one is not told of its end.
    expect((await few("echo", ["still here"], [])).stdout).toBe("still here\n");
    expect(groupsLeft()).toEqual([]);
  });

  it("cannot write what it may only read, and gives back what it was lent", async () => {
    chownSync(at("mine"), 0, 0);
    const before = statSync(at("mine"));
    const same = () => {
      const { uid, gid, mode } = statSync(at("mine"));
      expect([uid, gid, mode]).toEqual([before.uid, before.gid, before.mode]);
    };
    const both = [1, 2, 3].map(() => run("cat", [at("mine")], [{ path: at("mine"), access: "ro" }]));
    expect((await Promise.all(both)).map(({ stdout }) => stdout)).toEqual(["mine", "mine", "mine"]);
    same();
    await expect(run("tee", [at("mine")], [{ path: at("mine"), access: "ro" }])).rejects.toThrow("tee");
    await run("truncate", ["-s", "9", at("mine")], [{ path: at("mine"), access: "rw" }]);
    expect(statSync(at("mine")).size).toBe(9);
    same();
  });

  it("begins again when another node of a shared storage has given back what both had lent", async () => {
    chownSync(at("mine"), 0, 0);
    const mine = [{ path: at("mine"), access: "ro" }] as const;
    let runs = 0;
    const takenBack =
      (times: number): Exec =>
      (program, args, options) => {
        runs += 1;
        if (runs <= times) {
          chownSync(at("mine"), 0, 0);
          chmodSync(at("mine"), 0o600);
        }
        return exec(program, args, options);
      };
    const beside = confinedImageTools(folder, { exec: takenBack(2) });
    expect((await beside("cat", [at("mine")], mine)).stdout).toBe("mine");
    expect(runs).toBe(3);
    expect(statSync(at("mine"))).toMatchObject({ uid: 0, gid: 0, mode: 0o100600 });
    runs = 0;
    const never = confinedImageTools(folder, { exec: takenBack(99) });
    await expect(never("cat", [at("mine")], mine)).rejects.toThrow("Permission denied");
    expect(runs).toBe(5);
  });

  it("reads what guests share, and takes nothing from a guest that got it meanwhile", async () => {
    const path = at("base");
    writeFileSync(path, "base");
    chmodSync(path, 0o440);
    const shared = { path, access: "ro", owned: false, ofStorage: true } as const;
    const giveBack = await new ReadableFiles().lend(path, "ro");
    expect(statSync(path).gid).toBe(TOOL_GROUP);
    await prepareFile(shared, GUEST);
    await giveBack();
    expect(statSync(path)).toMatchObject({ uid: 0, gid: GUESTS_GROUP, mode: 0o100440 });
    expect((await run("cat", [path], [{ path, access: "ro" }])).stdout).toBe("base");
    expect(statSync(path)).toMatchObject({ uid: 0, gid: GUESTS_GROUP, mode: 0o100440 });
  });

  it("reaches no network, keeps to its limits and ends when its time is over", async () => {
    const connect = "exec 3<>/dev/tcp/127.0.0.1/22";
    await expect(run("bash", ["-c", connect])).rejects.toThrow("Network is unreachable");
    await expect(
      run("truncate", ["-s", "9", at("mine")], [{ path: at("mine"), access: "rw" }], {
        limits: { fsize: 5 },
      }),
    ).rejects.toThrow("truncate");
    await expect(run("sleep", ["30"], [], { timeoutMs: 100 })).rejects.toThrow("sleep did not finish");
  });

  it("follows no link that stands where its file should", async () => {
    mkdirSync(at("links"), { recursive: true });
    symlinkSync(at("secret"), at("links/a"));
    for (const access of ["ro", "rw"] as const)
      await expect(run("cat", [at("links/a")], [{ path: at("links/a"), access }])).rejects.toThrow(
        "is a link where a file should be",
      );
    expect(statSync(at("secret")).uid).toBe(0);
  });

  it("follows none that takes its file's place at the last moment", async () => {
    const late: Exec = (program, args, options) => {
      rmSync(at("mine"));
      symlinkSync(at("secret"), at("mine"));
      return exec(program, args, options);
    };
    for (const as of ["root", "user"] as const)
      for (const access of ["ro", "rw"] as const) {
        rmSync(at("mine"));
        writeFileSync(at("mine"), "mine");
        const lied = confinedImageTools(folder, { as, exec: late });
        await expect(lied("cat", [at("mine")], [{ path: at("mine"), access }])).rejects.toThrow(
          `${at("mine")} is a link where a file should be`,
        );
      }
    expect(statSync(at("secret"))).toMatchObject({ uid: 0, gid: 0, mode: 0o100644 });
  });

  it("says what is missing", async () => {
    await expect(run("no-such-tool", [])).rejects.toThrow("cannot run no-such-tool: it is not installed");
  });
});
