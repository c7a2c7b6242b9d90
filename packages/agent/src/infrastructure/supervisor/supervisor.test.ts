import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { supervisorBinary } from "./build.ts";
import { askSupervisor } from "./control.ts";
import { renderSpec, type SupervisorSpec } from "./spec-file.ts";

describe("the supervisor's spec", () => {
  const least: SupervisorSpec = {
    program: "/bin/x",
    args: ["x", "-a b"],
    env: { A: "1" },
    stateFile: "/s",
    exitFile: "/e",
    logFile: "/l",
    controlSocket: "/c",
    holdFiles: [],
    cgroupFiles: [],
    limits: {},
    tmpfs: [],
    binds: [],
    links: [],
    taps: [],
    sockets: [],
    openFiles: [],
  };

  it("is a row of words, each ended by NUL, so that nothing needs quoting", () => {
    expect(renderSpec(least).split("\0")).toEqual(
      "exec|/bin/x|arg|x|arg|-a b|env|A=1|state|/s|exit|/e|log|/l|control|/c|".split("|"),
    );
  });

  it("carries everything a confined guest needs", () => {
    const text = renderSpec({
      ...least,
      holdFiles: ["/h"],
      cgroupFiles: ["/g"],
      limits: { core: "0" },
      affinity: "0-1",
      oomScoreAdj: -500,
      identity: { uid: 1, gid: 2, groups: [3] },
      ownPids: true,
      ownNetwork: true,
      root: "/r",
      tmpfs: [{ path: "/tmp", size: "1m" }],
      binds: [{ source: "/a", target: "/b", access: "ro" }],
      links: [{ target: "usr/lib", path: "/lib" }],
      taps: [{ name: "tap1", bridge: "br", mtu: 0, queues: 2, firstFd: 32 }],
      vhost: { count: 1, firstFd: 50 },
      sockets: [{ path: "/q", fd: 10 }],
      openFiles: [{ path: "/f", access: "rw", fd: 60 }],
    });
    expect(text.split("\0").slice(16, -1).join(" ")).toBe(
      "hold /h cgroup /g limit core 0 affinity 0-1 oom -500 uid 1 gid 2 group 3 pids own network own root /r tmpfs /tmp 1m " +
        "bind /a /b ro symlink usr/lib /lib tap tap1 br 0 2 32 vhost 1 50 listen /q 10 open /f rw 60",
    );
  });

  it("refuses what could be read as two words", () => {
    expect(() => renderSpec({ ...least, args: ["a\0b"] })).toThrow("NUL");
  });
});

describe("the supervisor's control socket", () => {
  let folder: string;
  let server: Server;
  let asked: string;
  let answer: string;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-control-"));
    asked = "";
    server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on("data", (chunk: Buffer) => (asked += chunk.toString("utf8")));
      socket.on("end", () => socket.end(answer));
    });
    await new Promise<void>((resolve) => server.listen(join(folder, "c"), resolve));
  });
  afterEach(() => {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const ask = (...words: string[]): Promise<string> =>
    askSupervisor(join(folder, "c"), words, { clock: systemClock });

  it("takes words and gives what follows ok, or QEMU's own answer", async () => {
    answer = "ok 12";
    expect(await ask("ping")).toBe("12");
    expect(asked).toBe("ping\0");
    answer = "ok";
    expect(await ask("kill", "9")).toBe("");
    answer = '{"return":{}}';
    expect(await ask("tap")).toBe('{"return":{}}');
  });

  it("gives the supervisor's reason when it refuses or ends", async () => {
    answer = "error cannot mount: No such file";
    await expect(ask("bind", "/a")).rejects.toThrow("could not 'bind': cannot mount: No such file");
    answer = "";
    await expect(ask("ping")).rejects.toThrow("it ended");
    await expect(ask("a\0b")).rejects.toThrow("NUL");
  });
});

describe("the supervisor's binary", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-build-"));
    mkdirSync(join(folder, "src"));
    writeFileSync(join(folder, "src/main.c"), "int main(void) { return 0; }");
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it("is built once per version of its sources", async () => {
    let builds = 0;
    const build = {
      sourceFolder: folder,
      cacheFolder: join(folder, "cache"),
      exec: async (_file: string, args: readonly string[]) => {
        builds += 1;
        writeFileSync(args[args.indexOf("-o") + 1] ?? "", "", { mode: 0o755 });
        return await Promise.resolve({ code: 0, stdout: "", stderr: "" });
      },
    };
    const first = await supervisorBinary(build);
    expect(existsSync(first)).toBe(true);
    expect(await supervisorBinary(build)).toBe(first);
    expect(builds).toBe(1);
    writeFileSync(join(folder, "src/main.c"), "int main(void) { return 1; }");
    expect(await supervisorBinary(build)).not.toBe(first);
  });

  it("is kept for all data directories of a tree, and taken from there only when it is the tree's owner's", async () => {
    let builds = 0;
    const sharedFolder = join(folder, "shared");
    const build = (name: string) =>
      supervisorBinary({
        sourceFolder: folder,
        cacheFolder: join(folder, name),
        sharedFolder,
        exec: async (_file: string, args: readonly string[]) => {
          builds += 1;
          writeFileSync(args[args.indexOf("-o") + 1] ?? "", `build ${builds}`, { mode: 0o755 });
          return await Promise.resolve({ code: 0, stdout: "", stderr: "" });
        },
      });
    const one = await build("one");
    expect(one.startsWith(join(folder, "one"))).toBe(true);
    expect(readFileSync(await build("two"), "utf8")).toBe("build 1");
    expect(statSync(one).mode & 0o777).toBe(0o755);
    expect(builds).toBe(1);
    // Whoever may write it may put another there.
    chmodSync(join(sharedFolder, basename(one)), 0o777);
    expect(readFileSync(await build("three"), "utf8")).toBe("build 2");
    expect(readdirSync(join(folder, "three"))).toHaveLength(1);
  });

  it("is built for a data directory alone where the tree cannot be written", async () => {
    writeFileSync(join(folder, "shared"), "no folder");
    const built = await supervisorBinary({
      sourceFolder: folder,
      cacheFolder: join(folder, "own"),
      sharedFolder: join(folder, "shared"),
      exec: async (_file: string, args: readonly string[]) => {
        writeFileSync(args[args.indexOf("-o") + 1] ?? "", "", { mode: 0o755 });
        return await Promise.resolve({ code: 0, stdout: "", stderr: "" });
      },
    });
    expect(built.startsWith(join(folder, "own"))).toBe(true);
    expect(existsSync(built)).toBe(true);
  });

  it("says what to install when there is no compiler", async () => {
    const err: unknown = await supervisorBinary({
      sourceFolder: folder,
      cacheFolder: folder,
      compiler: "/no/such/compiler",
    }).catch((e: unknown) => e);
    expect(err).toBeInstanceOf(AppError);
    expect((err as AppError).message).toContain("apt-get install --no-install-recommends gcc libc6-dev");
  });
});
