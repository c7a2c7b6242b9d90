// What PVE's commands do beside the API's methods.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { commandText } from "./show-command.ts";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

let cli: Gpvectl;
const node = "/nodes/n1";
const vm = `${node}/qemu/100`;
const qm = (...words: string[]) => cli.runPve("qm", words);

beforeEach(async () => {
  cli = await Gpvectl.create();
  cli.api.pve("GET /cluster/status", [{ type: "node", name: "n1", local: 1 }]);
});
afterEach(async () => {
  await cli[Symbol.asyncDispose]();
});

/** A VM whose configuration changes as it is told. */
function guest(config: Record<string, string>): Record<string, string> {
  cli.api.on(`GET /api2/json${vm}/config`, () => ({ body: { data: { ...config } } }));
  const change = (form: URLSearchParams): void => {
    for (const [key, value] of form) {
      if (key !== "delete")
        config[key] = value.replace(/:0,import-from=.*/, ":100/vm-100-disk-1.raw,size=1G");
      else if (config[value] !== undefined) {
        config["unused0"] = (config[value] ?? "").replace(/,.*/, "");
        delete config[value];
      }
    }
  };
  for (const verb of ["PUT", "POST"])
    cli.api.on(`${verb} /api2/json${vm}/config`, ({ form }) => {
      change(form);
      return { body: { data: null } };
    });
  return config;
}

test("qm status, with everything when asked", async () => {
  cli.api.pve(`GET ${vm}/status/current`, {
    status: "running",
    qmpstatus: "paused",
    cpu: 0.5,
    ha: { managed: 0 },
    nics: ["a", "b"],
  });
  expect((await qm("status", "100")).out).toBe("status: paused\n");
  expect((await qm("status", "100", "--verbose")).out).toBe(
    "ha:\n\tmanaged: 0\nnics:\n\ta\n\tb\nqmpstatus: paused\nstatus: running\n",
  );
});

test("qm set says what it changed, and makes disks as a task", async () => {
  const config = guest({ cores: "1" });
  const changed = await qm("set", "100", "--memory", "512", "--cores", "2", "--cipassword", "secret1");
  expect(changed).toMatchObject({
    code: 0,
    out: "update VM 100: -cipassword <hidden> -cores 2 -memory 512\n",
  });
  expect(config["cores"]).toBe("2");
  const sent = (verb: string) => cli.api.last(`${verb} /api2/json${vm}/config`).form;
  for (const [drive, text] of [
    ["scsi1", "local:1"],
    ["ide2", "local:cloudinit"],
    ["scsi2", "local:0,import-from=/a.raw"],
  ] as const) {
    await qm("set", "100", `--${drive}`, text);
    expect(sent("POST").get(drive)).toBe(text);
  }
  await qm("set", "100", "--scsi3", "local:100/vm-100-disk-3.raw");
  expect(sent("PUT").get("scsi3")).toBe("local:100/vm-100-disk-3.raw");
});

test("qm showcmd shows the command line of a VM that runs", async () => {
  // This process stands for QEMU.
  cli.api.pve(`GET ${vm}/status/current`, { status: "running", pid: process.pid });
  const plain = await qm("showcmd", "100");
  expect(plain).toMatchObject({ code: 0 });
  expect(plain.out.split("\n")).toHaveLength(2);
  expect(plain.out).toContain(process.argv0.split("/").at(-1));
  expect(commandText(["qemu", "-m", "512", "-object", '{"a":1}', "-name", "it's"], true)).toBe(
    `qemu \\\n  -m 512 \\\n  -object '{"a":1}' \\\n  -name 'it'"'"'s'`,
  );
  cli.api.pve(`GET ${vm}/status/current`, { status: "stopped" });
  expect(await qm("showcmd", "100")).toMatchObject({
    code: 255,
    err: expect.stringContaining("VM 100 not running"),
  });
});

test("pvesm path names the place of a file that is not there yet", async () => {
  cli.api.pveError(`GET ${node}/storage/local/content/local:iso/new.iso`, 500, "no such file");
  cli.api.pve("GET /storage/local", { type: "dir", path: "/srv/vz", "content-dirs": "iso=discs" });
  const path = (volume: string) => cli.runPve("pvesm", ["path", volume]);
  expect(await path("local:iso/new.iso")).toMatchObject({ code: 0, out: "/srv/vz/discs/new.iso\n" });
  cli.api.pve("GET /storage/local", { type: "lvmthin" });
  expect(await path("local:iso/new.iso")).toMatchObject({ code: 255, err: "no such file\n" });
});

test("qm wait ends with the VM, or at its time", async () => {
  let asked = 0;
  cli.api.on(`GET /api2/json${vm}/status/current`, () => {
    asked += 1;
    return { body: { data: asked < 3 ? { status: "running", pid: 7 } : { status: "stopped" } } };
  });
  expect(await qm("wait", "100")).toEqual({
    code: 0,
    out: "waiting until VM 100 stops (PID 7)\n",
    err: "",
  });
  cli.api.pve(`GET ${vm}/status/current`, { status: "running", pid: 7 });
  expect(await qm("wait", "100", "--timeout", "2")).toMatchObject({
    code: 255,
    err: "wait failed - got timeout\n",
  });
});

test("qm unlock removes the lock though the VM is locked", async () => {
  guest({ lock: "backup" });
  expect((await qm("unlock", "100")).code).toBe(0);
  const { form } = cli.api.last(`PUT /api2/json${vm}/config`);
  expect(Object.fromEntries(form)).toEqual({ delete: "lock", skiplock: "1" });
});

test("qm importdisk makes an unused disk, or the one that is named", async () => {
  const file = join(cli.home, "disk.qcow2");
  await writeFile(file, "");
  const config = guest({ sata5: "local:100/a.raw" });
  expect(await qm("importdisk", "100", "disk.qcow2", "local", "--format", "raw")).toMatchObject({
    code: 0,
    out:
      "importing disk 'disk.qcow2' to VM 100 ...\n" +
      "unused0: successfully imported disk 'local:100/vm-100-disk-1.raw'\n",
  });
  const { form } = cli.api.last(`POST /api2/json${vm}/config`);
  expect(Object.fromEntries(form)).toEqual({ sata4: `local:0,import-from=${file},format=raw` });
  expect(config).toEqual({ sata5: "local:100/a.raw", unused0: "local:100/vm-100-disk-1.raw" });
  const named = await qm("disk", "import", "100", file, "local", "--target-disk", "scsi0");
  expect(named.out).toContain("scsi0: successfully imported disk 'local:100/vm-100-disk-1.raw,size=1G'\n");
});

test("qm importdisk refuses what is no file before it touches the VM", async () => {
  guest({});
  await writeFile(join(cli.home, "a,b"), "");
  expect(await qm("importdisk", "100", cli.home, "local")).toMatchObject({
    code: 255,
    err: `${cli.home}: non-existent or non-regular file\n`,
  });
  expect((await qm("importdisk", "100", "a,b", "local")).err).toContain("has a comma");
  guest(Object.fromEntries([0, 1, 2, 3, 4, 5].map((at) => [`sata${at}`, "none"])));
  await writeFile(join(cli.home, "disk"), "");
  expect((await qm("importdisk", "100", "disk", "local")).err).toContain("--target-disk");
  expect(() => cli.api.last(`POST /api2/json${vm}/config`)).toThrow("nobody asked");
});

test("qm import makes the VM that the source describes", async () => {
  cli.api.pve(`GET ${node}/storage/local/import-metadata`, {
    "create-args": { cores: 2, name: "app" },
    net: { net0: { model: "e1000", bridge: "vmbr0" } },
    disks: { scsi0: { volid: "local:import/a.ova/d.vmdk" }, efidisk0: 1 },
  });
  const words = ["import", "100", "local:import/a.ova/a.ovf", "--storage", "fast", "--delete", "name"];
  const dry = await qm(...words, "--dryrun", "--memory", "512");
  expect(dry.out).toBe(
    "# dry-run – the resulting create command for the import would be:\nqm create 100 \\\n  --cores 2 \\\n" +
      "  --efidisk0 fast:1,efitype=4m \\\n  --memory 512 \\\n  --net0 bridge=vmbr0,model=e1000 \\\n" +
      "  --scsi0 fast:0,import-from=local:import/a.ova/d.vmdk\n",
  );
  cli.api.pve(`POST ${node}/qemu`, null);
  expect((await qm(...words, "--live-import", "--format", "qcow2")).code).toBe(0);
  expect(Object.fromEntries(cli.api.last(`POST /api2/json${node}/qemu`).form)).toMatchObject({
    vmid: "100",
    "live-restore": "1",
    scsi0: "fast:0,format=qcow2,import-from=local:import/a.ova/d.vmdk",
  });
  expect((await qm("import", "100", "/a.ova", "--storage", "fast")).err).toContain(
    "unable to parse volume ID",
  );
});

test("qm rescan names what nobody names", async () => {
  cli.api.pve(`GET ${node}/storage`, [{ storage: "local" }]);
  cli.api.pve(`GET ${node}/qemu`, [{ vmid: 100 }, { vmid: 101 }]);
  cli.api.pve(`GET ${node}/storage/local/content`, [
    { volid: "local:100/a.raw", vmid: 100 },
    { volid: "local:100/b.raw", vmid: 100 },
    { volid: "local:101/c.raw", vmid: 101 },
  ]);
  const config = guest({ scsi0: "local:100/a.raw,size=1G", unused0: "local:100/x.raw" });
  const dry = await qm("rescan", "--vmid", "100", "--dryrun");
  expect(dry.out).toContain("VM 100 add unreferenced volume 'local:100/b.raw' as 'unused1' to config\n");
  expect(config).not.toHaveProperty("unused1");
  await qm("disk", "rescan", "--vmid", "100");
  expect(config).toMatchObject({ unused1: "local:100/b.raw" });
});

test("qm guest exec waits for the program, or gives its pid", async () => {
  cli.api.pve(`POST ${vm}/agent/exec`, { pid: 9 });
  let asked = 0;
  cli.api.on(`GET /api2/json${vm}/agent/exec-status`, () => {
    asked += 1;
    return { body: { data: asked < 2 ? { exited: 0 } : { exited: 1, exitcode: 0, "out-data": "hi\n" } } };
  });
  expect((await qm("guest", "exec", "100", "--", "echo", "-n", "hi")).out).toBe(
    '{\n   "exitcode" : 0,\n   "exited" : 1,\n   "out-data" : "hi\\n"\n}\n',
  );
  expect(cli.api.last(`POST /api2/json${vm}/agent/exec`).form.getAll("command")).toEqual([
    "echo",
    "-n",
    "hi",
  ]);
  expect((await qm("guest", "exec", "100", "--synchronous", "0", "true")).out).toBe('{\n   "pid" : 9\n}\n');
  cli.api.pve(`GET ${vm}/agent/exec-status`, { exited: 0 });
  const late = await cli.runPve("qm", ["guest", "exec", "100", "cat", "--timeout", "1", "--pass-stdin"], {
    stdin: "x",
  });
  expect(late).toMatchObject({ out: '{\n   "pid" : 9\n}\n', err: "timeout reached, returning pid\n" });
  expect(cli.api.last(`POST /api2/json${vm}/agent/exec`).form.get("input-data")).toBe("x");
  expect((await qm("guest", "exec", "100")).err).toContain("400 not enough arguments");
  expect((await qm("guest", "exec", "100", "a", "--synchronous", "0", "--timeout", "1")).err).toContain(
    "synchronous: needs to be set for 'timeout'\nqm guest exec <vmid> [{<extra-args>}] [OPTIONS]\n",
  );
  cli.api.pve(`POST ${vm}/agent`, { result: {} });
  expect((await qm("agent", "100", "ping")).out).toBe("");
});

test("qm monitor passes lines on, and says what QEMU refuses", async () => {
  guest({});
  cli.api.on(`POST /api2/json${vm}/monitor`, ({ form }) =>
    form.get("command") === "info status"
      ? { body: { data: "VM status: running\r\n" } }
      : { status: 500, reason: "unknown command" },
  );
  const ran = await cli.runPve("qm", ["monitor", "100"], { stdin: "info status\n\nfly\nq\ninfo status\n" });
  expect(ran.out).toBe(
    "Entering QEMU Monitor for VM 100 - type 'help' for help\nVM status: running\nERROR: unknown command\n",
  );
});

test("qm monitor asks on a terminal until it is left", async () => {
  guest({});
  cli.api.pve(`POST ${vm}/monitor`, "VM status: running");
  const ran = await cli.runPve("qm", ["monitor", "100"], { terminal: 80, answers: ["info status", "quit"] });
  expect(ran.out).toContain("VM status: running\n");
  expect(cli.asked).toEqual(["qm> ", "qm> "]);
});

test("qm terminal joins a serial line, if there is one", async () => {
  const config = guest({ serial1: "socket", serial2: "/dev/ttyS0" });
  expect((await qm("terminal", "100", "--iface", "serial0")).err).toContain("'serial0' is not configured");
  expect((await qm("terminal", "100", "--iface", "serial2")).err).toContain("wrong serial type");
  expect((await qm("terminal", "100", "--escape", "x")).err).toContain("invalid escape character");
  cli.api.pve(`POST ${vm}/termproxy`, { port: 5900, ticket: "t", user: "root@pam" });
  cli.api.onSocket((message, socket) => {
    if (message.toString().startsWith("root@pam:")) socket.say("OK");
    else if (message.toString() === "0:2:ls") socket.say("files");
  });
  async function* keys(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("ls");
    await new Promise((done) => setImmediate(done));
    yield Buffer.from("\u000f");
  }
  const ran = await cli.runPve("qm", ["terminal", "100"], { terminal: 80, keys: keys() });
  expect(ran).toMatchObject({ code: 0 });
  expect(ran.out).toContain("starting serial terminal on interface serial1 (press Ctrl+O to exit)\n");
  delete config["serial1"];
  expect((await qm("terminal", "100")).err).toBe("unable to find a serial interface\n");
});

test("snapshots are a tree, oldest first, what is now last", async () => {
  cli.api.pve(`GET ${vm}/snapshot`, [
    { name: "current", parent: "b", description: "You are here!" },
    { name: "b", parent: "a", snaptime: 2, description: "second\nline" },
    { name: "a", snaptime: 1 },
  ]);
  const lines = (await qm("listsnapshot", "100")).out.split("\n");
  expect(
    lines.map((line) => line.replaceAll(/ +/g, " ").replaceAll(/\d{4}-.* \d\d:\d\d:\d\d/g, "T")),
  ).toEqual(["`-> a T no-description", " `-> b T second", " `-> current You are here!", ""]);
});
