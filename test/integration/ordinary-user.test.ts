// The README's first guest for somebody who is not root: up, create, start, run something inside, SSH, down.
import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { exec, type ExecResult } from "@gpve/kit/exec.ts";
import { mainFile, nodeBinary } from "../support/gpve.ts";
import { tinyImage } from "../support/images.ts";
import { processesOf } from "./guests/guest-world.ts";

const missing = [
  ...(process.getuid?.() === 0 ? [] : ["root, to become somebody else"]),
  ...(existsSync("/usr/bin/qemu-system-x86_64") ? [] : ["qemu-system-x86"]),
  ...(existsSync("/usr/bin/ssh") ? [] : ["openssh-client"]),
];
if (missing.length > 0)
  console.warn(`SKIPPED the first guest of an ordinary user: needs ${missing.join(", ")}`);

const NOBODY = 65_534;
const MINUTES = 60_000;

describe.skipIf(missing.length > 0)("an ordinary user", { timeout: 10 * MINUTES }, () => {
  let home: string;
  let data: string;
  let guestPid: number;

  const asUser = (argv: readonly string[], okCodes: readonly number[] = [0]): Promise<ExecResult> => {
    const env = [
      "env",
      "--ignore-environment",
      `HOME=${home}`,
      "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
      "LC_ALL=C",
    ];
    const who = [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"];
    return exec("setpriv", [...who, ...env, ...argv], { timeoutMs: 5 * MINUTES, okCodes });
  };
  const gpve = (...args: string[]): Promise<ExecResult> =>
    asUser([nodeBinary, "--disable-warning=ExperimentalWarning", mainFile, ...args]);
  const own = (path: string): void => {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    chownSync(path, NOBODY, NOBODY);
  };

  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), "gpve-home-"));
    data = join(home, ".local/share/gpve");
    for (const folder of ["", ".cache", ".cache/gpve", ".cache/gpve/images", ".ssh"]) own(join(home, folder));
    const image = await tinyImage();
    const cached = join(home, ".cache/gpve/images", basename(image));
    copyFileSync(image, cached);
    chownSync(cached, NOBODY, NOBODY);
    await asUser(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", join(home, ".ssh/id_ed25519")]);
  }, 5 * MINUTES);

  afterAll(async () => {
    const said = await asUser([nodeBinary, mainFile, "down", "--guests"], [0, 1]);
    expect(processesOf(home), said.stdout + said.stderr).toEqual([]);
    rmSync(home, { recursive: true, force: true });
  }, 2 * MINUTES);

  test("starts gpve, and is told what root would add", async () => {
    const { stdout } = await gpve("up", "--detach", "--listen", "127.0.0.1:0");
    expect(stdout).toContain("Try next:");
    expect(stdout).toContain(data);
    expect(stdout).toMatch(/Not root +guests have user-mode networks/);
    // Found by trying, in the first moments.
    await vi.waitFor(
      async () => expect((await gpve("status")).stdout).toMatch(/^confinement +(?:partial|none): not root/m),
      { timeout: MINUTES, interval: 1_000 },
    );
  });

  test("creates and starts the first guest, which has a network all the same", async () => {
    const { stdout, stderr } = await gpve(
      "ctl",
      "vm",
      "create",
      "--image",
      "tiny",
      "--name",
      "demo",
      "--start",
    );
    const said = stdout + stderr;
    expect(said).toContain("user-mode network");
    const config = (await gpve("ctl", "vm", "config", "demo")).stdout;
    expect(config).toMatch(/bridge=vmbr0/);
    const shown = JSON.parse((await gpve("ctl", "vm", "show", "demo", "-o", "json")).stdout) as Record<
      string,
      unknown
    >;
    guestPid = Number(shown["pid"]);
    expect(String(shown["gpve-notes"])).toMatch(/because taps need root.*ssh -p \d+ USER@127\.0\.0\.1/);
  });

  test("runs something inside, by the agent and by SSH at the port that is named", async () => {
    await vi.waitFor(
      async () =>
        expect((await gpve("ctl", "vm", "exec", "demo", "--", "uname", "-s")).stdout).toBe("Linux\n"),
      {
        timeout: 3 * MINUTES,
        interval: 1_000,
      },
    );
    const notes = (await gpve("ctl", "vm", "show", "demo")).stdout;
    const [, port = ""] = /ssh -p (\d+) USER@127\.0\.0\.1/.exec(notes) ?? [];
    const options = [
      "StrictHostKeyChecking=no",
      "UserKnownHostsFile=/dev/null",
      "BatchMode=yes",
      "ConnectTimeout=20",
    ];
    const ssh = [
      "ssh",
      "-q",
      "-i",
      join(home, ".ssh/id_ed25519"),
      ...options.flatMap((each) => ["-o", each]),
    ];
    await vi.waitFor(
      async () =>
        expect((await asUser([...ssh, "-p", port, "root@127.0.0.1", "hostname"])).stdout).toBe("demo\n"),
      { timeout: 2 * MINUTES, interval: 1_000 },
    );
    // The way out: the machine itself answers at the address of the way out.
    const routes = (await gpve("ctl", "vm", "exec", "demo", "--", "/bin/ip", "route")).stdout;
    expect(routes).toContain("default via 10.0.2.2");
  });

  test("has it held as far as goes without root", async () => {
    const status = readFileSync(`/proc/${guestPid}/status`, "utf8");
    expect(status).toMatch(/^Uid:\s+65534/m);
    expect(status).toMatch(/^Seccomp:\s+2$/m);
    expect(status).toMatch(/^CapEff:\s+0+$/m);
    const { stdout } = await asUser(["unshare", "--user", "--mount", "--net", "true"], [0, 1]).then(
      () => ({ stdout: "namespaces" }),
      () => ({ stdout: "" }),
    );
    if (stdout === "") return console.warn("SKIPPED: this kernel gives users no namespaces");
    const seen = (path: string): string => join("/proc", String(guestPid), "root", path);
    expect(readlinkSync(`/proc/${guestPid}/ns/net`)).not.toBe(readlinkSync("/proc/self/ns/net"));
    expect(readlinkSync(`/proc/${guestPid}/ns/pid`)).not.toBe(readlinkSync("/proc/self/ns/pid"));
    expect(existsSync(seen("etc/passwd"))).toBe(false);
    expect(existsSync(seen("usr/share/seabios"))).toBe(true);
    // A disk that comes later is mounted into its view, and works.
    await gpve("ctl", "vm", "set", "demo", "scsi1=local:1");
    const disks = (await gpve("ctl", "vm", "exec", "demo", "--", "/bin/cat", "/proc/partitions")).stdout;
    expect(disks).toContain("sdb");
  });

  test("is told before the work begins what needs root", async () => {
    const built = await asUser(
      [nodeBinary, mainFile, "ctl", "vm", "create", "--image", "debian12", "--name", "web"],
      [0, 1],
    );
    expect(built.code).toBe(1);
    expect(built.stderr).toContain("built by root only");
  });
});
