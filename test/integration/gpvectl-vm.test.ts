// gpvectl with a real guest of a real `gpve up`, as scripts use it: pipes, exit codes, a VNC viewer.
import { existsSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { greetServer, rfbReader } from "@gpve/cli/commands/vm/console/rfb-greeting.ts";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { mainFile, nodeBinary, startGpve, type Gpve } from "../support/gpve.ts";
import { tinyImage } from "../support/images.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

let gpve: Gpve;

/** In a process of its own, as people have it. */
async function ctl(argv: readonly string[], input = "", onLine?: (line: string) => void): Promise<Ran> {
  const { code, stdout, stderr } = await exec(nodeBinary, [mainFile, "ctl", "--data", gpve.data, ...argv], {
    input,
    timeoutMs: 240_000,
    okCodes: Array.from({ length: 131 }, (_none, at) => at),
    ...given({ onLine }),
  });
  return { code, out: stdout, err: stderr };
}

beforeAll(async () => {
  gpve = await startGpve();
});
afterAll(async () => {
  if (hasQemu) await ctl(["vm", "stop", "demo"]);
  await gpve.stop();
});

describe.skipIf(!hasQemu)("gpvectl vm", () => {
  test("makes a VM from an image file, starts it, and shows it", async () => {
    const image = await tinyImage();
    const argv = ["vm", "create", "--image", image, "--name", "demo", "--memory", "256", "--bridge", "none"];
    const made = await ctl([...argv, "--start", "-o", "json"]);
    expect(made).toMatchObject({ code: 0 });
    expect(JSON.parse(made.out)).toMatchObject({ vmid: 100 });
    expect((await ctl(["vm", "list"])).out).toMatch(/^100 +demo +\S+ +running/m);
  });

  test("types into its console what is piped, and prints the answer", async () => {
    const ready = await ctl(["vm", "console", "demo", "--until", "# ", "--wait-for", "3m"], "\n");
    expect(ready).toMatchObject({ code: 0 });
    const answer = await ctl(["vm", "console", "demo", "--until", "sum-42"], "echo sum-$((20+22))\n");
    expect(answer).toMatchObject({ code: 0, out: expect.stringContaining("sum-42") });
    expect((await ctl(["vm", "console", "demo", "--serial", "serial1"])).code).not.toBe(0);
  });

  test("runs programs inside, with their input and exit code", async () => {
    await expect
      .poll(async () => (await ctl(["vm", "exec", "demo", "--", "true"])).code, {
        timeout: 150_000,
        interval: 1000,
      })
      .toBe(0);
    const ran = await ctl(["vm", "exec", "demo", "--stdin", "--", "sh", "-c", "tr a-z A-Z; exit 3"], "hello");
    expect(ran).toMatchObject({ code: 3, out: "HELLO" });
  });

  test("answers to PVE's commands, by links as scripts on the node have them", async () => {
    const links = join(gpve.data, "bin");
    await exec(nodeBinary, [mainFile, "pve-commands", "install", links]);
    const run = async (name: string, ...words: readonly string[]): Promise<Ran> => {
      const env = { ...MINIMAL_ENV, GPVE_DATA: gpve.data };
      const okCodes = [0, 1, 2, 255];
      const { code, stdout, stderr } = await exec(join(links, name), words, { env, okCodes });
      return { code, out: stdout, err: stderr };
    };
    expect((await run("qm", "list")).out).toMatch(/^ +100 demo +running +256 /m);
    expect(await run("qm", "status", "100")).toEqual({ code: 0, out: "status: running\n", err: "" });
    expect(await run("qm", "start", "100")).toEqual({ code: 255, out: "", err: "VM 100 already running\n" });
    expect((await run("qm", "config", "999")).code).toBe(2);
    const said = await run("qm", "guest", "exec", "100", "--", "echo", "hello");
    expect(JSON.parse(said.out)).toMatchObject({ exitcode: 0, "out-data": "hello\n" });

    // A file of this machine as a disk, of a VM that runs and does not see it.
    const imported = await run("qm", "importdisk", "100", await tinyImage(), "local", "--format", "qcow2");
    expect(imported).toMatchObject({ code: 0 });
    const [, volume = ""] = /unused0: successfully imported disk '(.*)'/.exec(imported.out) ?? [];
    const path = (await run("pvesm", "path", volume)).out.trim();
    expect(readFileSync(path).toString("latin1", 0, 3)).toBe("QFI");
    expect((await run("pvesm", "list", "local")).out).toMatch(
      new RegExp(`^${volume} +qcow2 +images +\\d+ 100$`, "m"),
    );
    expect(await run("qm", "set", "100", "--delete", "unused0")).toMatchObject({ code: 0 });
    expect(existsSync(path)).toBe(false);

    expect((await run("vzdump", "100", "--storage", "local")).out).toContain(
      "INFO: Backup job finished successfully",
    );
    expect(await run("pveum", "user", "add", "joe@pve")).toMatchObject({ code: 0 });
    expect((await run("pveum", "user", "list", "--noborder")).out).toMatch(/^joe@pve /m);
    const asked = await run("pvesh", "get", "/nodes/localhost/qemu/100/config", "--output-format", "json");
    expect(JSON.parse(asked.out)).toMatchObject({ name: "demo" });
    expect((await run("pvesh", "get", "/nowhere")).code).toBe(1);
  });

  test("lets a VNC viewer see its screen, with the password it printed", async () => {
    let name: Promise<string> | undefined;
    const ran = await ctl(["vm", "vnc", "demo", "--once"], "", (line) => {
      const [, address, password] = /viewer to (\S+), password (\S+)$/.exec(line) ?? [];
      if (address !== undefined) name = desktopName(address, password ?? "");
    });
    expect(ran.code).toBe(0);
    expect(await name).toContain("demo");
  });

  test("saves a picture of its screen, as a PNG", async () => {
    const file = join(gpve.data, "screen.png");
    expect(await ctl(["vm", "screenshot", "demo", file])).toMatchObject({ code: 0 });
    const png = readFileSync(file);
    expect(png.toString("latin1", 1, 4)).toBe("PNG");
    // The header's width and height.
    expect(png.readUInt32BE(16)).toBeGreaterThan(300);
    expect(png.readUInt32BE(20)).toBeGreaterThan(200);
  });

  test("keeps and restores snapshots and backups, and has logs", async () => {
    expect(await ctl(["vm", "snapshot", "create", "demo", "s1"])).toMatchObject({ code: 0 });
    expect((await ctl(["vm", "snapshot", "list", "demo"])).out).toContain("s1");
    expect(await ctl(["vm", "backup", "demo", "--notes", "of {{guestname}}"])).toMatchObject({ code: 0 });
    expect(await ctl(["vm", "backup", "demo", "--incremental"])).toMatchObject({ code: 0 });
    const restored = await ctl(["vm", "restore", "100", "--vmid", "200", "--unique"]);
    expect(restored).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^Restored local:backup\/.* as VM 200/),
    });
    expect((await ctl(["vm", "logs", "100", "-n", "20"])).out).toMatch(/qmsnapshot +OK/);
    expect((await ctl(["vm", "delete", "200"])).out).toBe("Deleted VM 200.\n");
  });

  test("ends the console with the guest", async () => {
    const ran = await ctl(["vm", "console", "demo", "--until", "never", "--wait-for", "2m"], "poweroff\n");
    expect(ran).toMatchObject({ code: 7, err: expect.stringContaining("the console ended before") });
    expect((await ctl(["vm", "console", "demo"])).err).toMatch(/Start it: gpvectl --data \S+ vm start 100\./);
  });
});

/** What a viewer learns first of a screen: its name. */
async function desktopName(address: string, password: string): Promise<string> {
  const [host = "", port = ""] = address.split(":");
  const socket = connect({ host, port: Number(port) });
  const reader = rfbReader(socket);
  const send = async (bytes: Uint8Array): Promise<void> => void socket.write(bytes);
  await greetServer(reader, send, password);
  await send(Buffer.from([1]));
  const init = await reader.take(24);
  const name = (await reader.take(init.readUInt32BE(20))).toString();
  socket.destroy();
  return name;
}
