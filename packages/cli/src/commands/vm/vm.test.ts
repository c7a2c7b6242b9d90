import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Gpvectl, type RunOptions } from "../../testing/run-gpvectl.ts";

const GiB = 1024 ** 3;
const upid = "UPID:n1:1:";
const base = "/nodes/n1/qemu/100";
const rows = [
  { type: "qemu", vmid: 101, name: "twin", node: "n2", status: "stopped", maxcpu: 1, maxmem: GiB },
  {
    type: "qemu",
    vmid: 100,
    name: "web",
    node: "n1",
    status: "running",
    cpu: 0.5,
    maxcpu: 2,
    mem: GiB,
    maxmem: 2 * GiB,
    uptime: 60,
    pool: "dev",
  },
  { type: "qemu", vmid: 102, name: "twin", node: "n1", status: "stopped", maxmem: GiB },
  { type: "lxc", vmid: 200, name: "ct", node: "n1" },
];

async function withVms(): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  ctl.api
    .pve("GET /cluster/resources", rows)
    .pve("GET /cluster/nextid", "103")
    .pve("GET /nodes", [
      { node: "n1", status: "online", mem: 3 * GiB, maxmem: 4 * GiB },
      { node: "n2", status: "online", mem: GiB, maxmem: 4 * GiB },
      { node: "n3", status: "offline", mem: 0, maxmem: 64 * GiB },
    ])
    .pve(`GET /nodes/n1/tasks/${upid}/status`, { status: "stopped", exitstatus: "OK" })
    .pve(`GET /nodes/n1/tasks/${upid}/log`, [{ n: 1, t: "step" }], 1);
  return ctl;
}

describe("reads", () => {
  test("vm list shows VMs in order, filtered", async () => {
    await using ctl = await withVms();
    expect((await ctl.run(["vm", "list"])).out).toBe(
      [
        "VMID  NAME  NODE  STATUS      CPU  CPUS  MEMORY       OF  UPTIME",
        "100   web   n1    running  50.0 %  2     50.0 %  2.0 GiB      1m",
        "101   twin  n2    stopped       -  1          -  1.0 GiB       -",
        "102   twin  n1    stopped       -  -          -  1.0 GiB       -",
        "",
      ].join("\n"),
    );
    const ids = async (...flags: string[]): Promise<number[]> =>
      (JSON.parse((await ctl.run(["vm", "list", "-o", "json", ...flags])).out) as { vmid: number }[]).map(
        (row) => row.vmid,
      );
    expect(await ids("--running")).toEqual([100]);
    expect(await ids("--node", "n2")).toEqual([101]);
    expect(await ids("--pool", "dev")).toEqual([100]);
  });

  test("a VM is found by VMID or by a name that only it has", async () => {
    await using ctl = await withVms();
    ctl.api.pve(`GET ${base}/status/current`, {
      name: "web",
      status: "running",
      qmpstatus: "running",
      maxmem: GiB,
    });
    for (const vm of ["100", "web"]) {
      expect((await ctl.run(["vm", "show", vm])).out).toBe(
        "VMID:        100\nName:        web\nNode:        n1\nStatus:      running\nQEMU state:  running\nMemory:      1.0 GiB\n",
      );
    }
    expect(await ctl.run(["vm", "show", "twin"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("several VMs are called twin: 101, 102. Name one by its VMID."),
    });
    expect(await ctl.run(["vm", "show", "200"])).toMatchObject({
      code: 5,
      err: expect.stringContaining("there is no VM 200. See what there is: gpvectl vm list."),
    });
  });

  test("a guest is shown with its addresses, where its agent answers", async () => {
    await using ctl = await withVms();
    const interfaces = `GET ${base}/agent/network-get-interfaces`;
    ctl.api.pve(`GET ${base}/status/current`, { status: "running", qmpstatus: "running", agent: 1 });
    ctl.api.pveError(interfaces, 500, "QEMU guest agent is not running");
    expect((await ctl.run(["vm", "show", "100"])).out).not.toContain("Addresses");
    ctl.api.pve(interfaces, {
      result: [
        { name: "lo", "ip-addresses": [{ "ip-address": "127.0.0.1" }, { "ip-address": "::1" }] },
        { name: "eth0", "ip-addresses": [{ "ip-address": "10.0.0.5" }, { "ip-address": "fe80::1" }] },
        { name: "eth1" },
      ],
    });
    expect((await ctl.run(["vm", "show", "100"])).out).toContain("Addresses:   10.0.0.5\n");
  });

  test("a guest without an agent is shown with what DHCP gave it", async () => {
    await using ctl = await withVms();
    const leased = { status: "running", qmpstatus: "running", "gpve-addresses": ["10.37.0.101"] };
    ctl.api.pve(`GET ${base}/status/current`, leased);
    expect((await ctl.run(["vm", "show", "100"])).out).toContain("Addresses:   10.37.0.101\n");
  });

  test("configuration and snapshots", async () => {
    await using ctl = await withVms();
    ctl.api
      .pve(`GET ${base}/config`, { name: "web", cores: 2, boot: "order=scsi0" })
      .pve(`GET ${base}/snapshot`, [
        { name: "s1", snaptime: 0, vmstate: 1 },
        { name: "current", parent: "s1", description: "You are here!" },
      ]);
    expect((await ctl.run(["vm", "config", "100"])).out).toBe("boot: order=scsi0\ncores: 2\nname: web\n");
    expect(
      JSON.parse((await ctl.run(["vm", "config", "100", "--current", "-o", "json"])).out),
    ).toHaveProperty("cores", 2);
    expect(ctl.api.last(`GET /api2/json${base}/config`).query.toString()).toBe("current=1");
    expect((await ctl.run(["vm", "snapshot", "list", "web"])).out).toBe(
      [
        "NAME     PARENT  TAKEN                 WITH MEMORY  DESCRIPTION",
        "s1       -       1970-01-01 00:00:00Z  yes          -",
        "current  s1      -                     -            You are here!",
        "",
      ].join("\n"),
    );
  });
});

describe("writes", () => {
  test.each([
    [`POST ${base}/status/start`, ["vm", "start", "100"], "Started VM 100.", ""],
    [
      `POST ${base}/status/shutdown`,
      ["vm", "shutdown", "web", "--wait-for", "2m", "--force"],
      "Shut down VM 100.",
      "timeout=120&forceStop=1",
    ],
    [`POST ${base}/status/suspend`, ["vm", "suspend", "100", "--to-disk"], "Suspended VM 100.", "todisk=1"],
    [`POST ${base}/status/suspend`, ["vm", "pause", "100"], "Paused VM 100.", ""],
    [`POST ${base}/template`, ["vm", "template", "web"], "VM 100 is a template now.", ""],
    [
      `PUT ${base}/resize`,
      ["vm", "resize", "web", "scsi0", "+10G"],
      "Disk scsi0 of VM 100 has been resized: +10G.",
      "disk=scsi0&size=%2B10G",
    ],
    [
      "POST /nodes/n1/vzdump",
      ["vm", "backup", "web", "--mode", "stop", "--protected", "--notes", "n"],
      "Backed up VM 100.",
      "vmid=100&storage=local&compress=zstd&mode=stop&notes-template=n&protected=1",
    ],
    [
      "POST /nodes/n1/qemu",
      ["vm", "restore", "local:backup/x.vma", "--node", "n1", "--unique", "--force", "--live", "--start"],
      "Restored local:backup/x.vma as VM 103 on n1.",
      "vmid=103&archive=local%3Abackup%2Fx.vma&force=1&unique=1&live-restore=1&start=1",
    ],
    [`POST ${base}/status/reboot`, ["vm", "reboot", "100"], "Rebooted VM 100.", ""],
    [
      `POST ${base}/config`,
      ["vm", "set", "100", "cores=4", "--delete", "ide2"],
      "Changed VM 100.",
      "cores=4&delete=ide2",
    ],
    [
      `DELETE ${base}`,
      ["vm", "delete", "100", "--purge", "--unreferenced-disks"],
      "Deleted VM 100.",
      "purge=1&destroy-unreferenced-disks=1",
    ],
    [
      `POST ${base}/clone`,
      ["vm", "clone", "web", "w2", "--full"],
      "Cloned VM 100 as 103.",
      "newid=103&name=w2&full=1",
    ],
    [
      `POST ${base}/migrate`,
      ["vm", "migrate", "web", "n2", "--target-storage", "a:b", "--bwlimit", "1000"],
      "Moved VM 100 to node n2.",
      "target=n2&online=1&with-local-disks=1&targetstorage=a%3Ab&bwlimit=1000",
    ],
    [
      `POST ${base}/migrate`,
      ["vm", "migrate", "web", "n2", "--compression", "on"],
      "Moved VM 100 to node n2.",
      "target=n2&online=1&with-local-disks=1&compression=on",
    ],
    [
      `POST ${base}/snapshot`,
      ["vm", "snapshot", "create", "100", "s1", "--memory"],
      "Took snapshot s1 of VM 100.",
      "snapname=s1&vmstate=1",
    ],
    [
      `POST ${base}/snapshot/s1/rollback`,
      ["vm", "snapshot", "rollback", "100", "s1", "--start"],
      "VM 100 is back at s1.",
      "start=1",
    ],
    [
      `DELETE ${base}/snapshot/s1`,
      ["vm", "snapshot", "delete", "100", "s1", "--force"],
      "Deleted snapshot s1 of VM 100.",
      "force=1",
    ],
  ] as const)("%s", async (route, argv, done, params) => {
    await using ctl = await withVms();
    ctl.api.pve(route, upid).pve(`GET ${base}/status/current`, { status: "running" });
    expect(await ctl.run(argv)).toEqual({ code: 0, out: `${done}\n`, err: "  step\n" });
    const [verb, path] = route.split(" ");
    const request = ctl.api.last(`${verb} /api2/json${path}`);
    expect(request.body + request.query.toString()).toBe(params);
    expect((await ctl.run([...argv, "--no-wait"])).out).toBe(`${upid}\n`);
  });

  test("a move of one under HA has ended when HA has moved it, not when HA was asked", async () => {
    await using ctl = await withVms();
    const asked = "UPID:n1:1:1:1:hamigrate:100:root@pam:";
    let isAsked = false;
    ctl.api
      .pve(`GET ${base}/status/current`, { status: "running" })
      .on(`POST /api2/json${base}/migrate`, () => {
        isAsked = true;
        return { body: { data: asked } };
      })
      .pve(`GET /nodes/n1/tasks/${asked}/status`, { status: "stopped", exitstatus: "OK" })
      .pve(`GET /nodes/n1/tasks/${asked}/log`, [], 0)
      .on("GET /api2/json/cluster/resources", () => ({
        body: { data: rows.map((row) => (row.vmid === 100 && isAsked ? { ...row, node: "n2" } : row)) },
      }));
    const { out } = await ctl.run(["vm", "migrate", "web", "n2"]);
    expect(out).toBe("HA is asked to move VM 100.\nVM 100 is on node n2 now.\n");
    isAsked = false;
    expect((await ctl.run(["vm", "migrate", "web", "n2", "--no-wait"])).out).toBe(`${asked}\n`);
  });

  test("a stop of one under HA has ended when it is off, and waits for no HA that is disarmed", async () => {
    await using ctl = await withVms();
    const asked = "UPID:n1:1:1:1:hastop:100:root@pam:";
    let status = "running";
    let hastate = "started";
    const serve = (onStop: () => void) =>
      ctl.api
        .on(`POST /api2/json${base}/status/stop`, () => {
          onStop();
          return { body: { data: asked } };
        })
        .pve(`GET /nodes/n1/tasks/${asked}/status`, { status: "stopped", exitstatus: "OK" })
        .pve(`GET /nodes/n1/tasks/${asked}/log`, [], 0)
        .on("GET /api2/json/cluster/resources", () => ({
          body: { data: rows.map((row) => (row.vmid === 100 ? { ...row, status, hastate } : row)) },
        }))
        .pve("GET /cluster/ha/status/current", [{ type: "fencing", "armed-state": "disarmed" }]);
    serve(() => (status = "stopped"));
    expect((await ctl.run(["vm", "stop", "web"])).out).toBe("HA is asked to stop VM 100.\nStopped VM 100.\n");
    status = "running";
    serve(() => undefined);
    const later = await ctl.run(["vm", "stop", "web"]);
    expect([later.code, later.out]).toEqual([0, "HA is asked to stop VM 100.\n"]);
    expect(later.err).toContain("HA is disarmed: VM 100 is stopped when it is armed again");
    hastate = "error";
    const failed = await ctl.run(["vm", "stop", "web"]);
    expect([failed.code, failed.err]).toEqual([1, expect.stringContaining("see gpvectl ha explain 100")]);
  });

  test("one whose node is gone goes on from its replica, and its age is told", async () => {
    await using ctl = await withVms();
    const answer = {
      vmid: 100,
      from: "n1",
      to: "n2",
      copyOf: "2026-01-01T00:00:00.000Z",
      ageSeconds: 70,
      age: "1 min 10 s",
      left: ["its snapshots (s1)"],
    };
    ctl.api.on("POST /api/v1/virtualmachines/100/failover", () => ({ body: answer }));
    const said = await ctl.run(["vm", "failover", "web", "--node-is-off"]);
    expect(said.out + said.err).toContain("Left behind: its snapshots (s1).");
    const told = "VM 100 goes on at node n2 from the copy of 2026-01-01T00:00:00.000Z (1 min 10 s old).";
    expect(said.out).toContain(told);
    expect(JSON.parse(ctl.api.requests.at(-1)?.body ?? "")).toEqual({
      nodeIsOff: true,
      dropMissing: false,
      start: false,
    });
    ctl.api
      .on("POST /api/v1/virtualmachines/100/failover", () => ({ body: { ...answer, left: [], task: upid } }))
      .pve(`GET /nodes/n1/tasks/${upid}/status`, { status: "stopped", exitstatus: "OK" })
      .pve(`GET /nodes/n1/tasks/${upid}/log`, [], 0);
    const argv = ["vm", "failover", "web", "--node-is-off", "--start", "--target", "n2"];
    expect((await ctl.run(argv)).out).toContain(told);
  });

  test("several VMs are started one after another; a failed task stops and is explained", async () => {
    await using ctl = await withVms();
    ctl.api.pve(`POST ${base}/status/start`, upid).pve("POST /nodes/n2/qemu/101/status/start", upid);
    expect((await ctl.run(["vm", "start", "100", "101"])).out).toBe("Started VM 100.\nStarted VM 101.\n");
    ctl.api.pve(`GET /nodes/n1/tasks/${upid}/status`, {
      status: "stopped",
      exitstatus: "VM 100 already running",
    });
    expect(await ctl.run(["vm", "start", "100"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("VM 100 already running. Its log: gpvectl task follow"),
    });
    expect((await ctl.run(["vm", "set", "100"])).err).toContain("nothing to change");
  });

  test("a wrong name among several is told before anything happens to the others", async () => {
    await using ctl = await withVms();
    expect((await ctl.run(["vm", "stop", "100", "nosuch"])).err).toContain("there is no VM nosuch. See what");
    expect(ctl.api.requests.some(({ method }) => method === "POST")).toBe(false);
  });

  test("a setting that was mistyped is asked about", async () => {
    await using ctl = await withVms();
    const unknown = "property is not defined in schema and the schema does not allow additional properties";
    ctl.api.pveError(`POST ${base}/config`, 400, "Parameter verification failed.", {
      memry: unknown,
      nte1: unknown,
    });
    expect((await ctl.run(["vm", "set", "100", "memry=5", "nte1=virtio"])).err).toContain(
      "Did you mean memory and net1? See: gpvectl vm set --help.",
    );
  });

  test("restore takes the latest backup of a VMID", async () => {
    await using ctl = await withVms();
    const list = "GET /nodes/n1/storage/local/content";
    ctl.api.pve("POST /nodes/n1/qemu", upid).pve(list, [
      { volid: "local:backup/old", ctime: 1 },
      { volid: "local:backup/new", ctime: 2 },
    ]);
    const argv = ["vm", "restore", "100", "--node", "n1", "--vmid", "900", "-o", "json"];
    const ran = await ctl.run(argv);
    expect(JSON.parse(ran.out)).toEqual({ vmid: 900, node: "n1", archive: "local:backup/new" });
    ctl.api.pve(list, []);
    expect(await ctl.run(argv)).toMatchObject({
      code: 5,
      err: expect.stringContaining("storage local has no backup of VM 100. See what there is:"),
    });
  });

  test("--wait says what happens anyway", async () => {
    await using ctl = await withVms();
    ctl.api.pve(`POST ${base}/status/start`, upid);
    expect((await ctl.run(["vm", "start", "100", "--wait"])).out).toBe("Started VM 100.\n");
  });

  test("create takes the next VMID and a node that the scheduler finds, and has defaults", async () => {
    await using ctl = await withVms();
    ctl.api
      .on("POST /api/v1/placements", { status: 201, body: { id: "vm/103", node: "n2" } })
      .pve("POST /nodes/n2/qemu", upid)
      .pve("POST /nodes/n1/qemu", upid)
      .pve("GET /nodes/n1/storage/local/status", { type: "dir" });
    expect(await ctl.run(["vm", "create"])).toMatchObject({
      out: "Created VM 103 on n2.\n",
      err: expect.stringMatching(/It has no disk and no CD: .*\nIt has no network card: .*\nStart it: /),
    });
    expect(ctl.api.last("POST /api2/json/nodes/n2/qemu").body).toBe("vmid=103&cores=1&memory=1024");
    expect(JSON.parse(ctl.api.last("POST /api/v1/placements").body)).toEqual({
      vmid: 103,
      config: { cores: "1", memory: "1024" },
      starts: false,
    });
    await ctl.run([
      "vm",
      "create",
      "--node",
      "auto",
      "--strategy",
      "ha-spread",
      "--disk",
      "4",
      "--pool",
      "blue",
    ]);
    expect(JSON.parse(ctl.api.last("POST /api/v1/placements").body)).toMatchObject({
      config: { scsi0: "local:4" },
      tenant: "blue",
      scheduling: { strategy: "ha-spread" },
    });
    const both = await ctl.run(["vm", "create", "--node", "n1", "--strategy", "latency"]);
    expect([both.code, both.err]).toEqual([2, expect.stringContaining("leave out --node n1")]);
    const argv = [
      "vm",
      "create",
      "--vmid",
      "300",
      "--node",
      "n1",
      "--name",
      "db",
      "--disk",
      "8",
      "--bridge",
      "vmbr0",
    ];
    await ctl.run([...argv, "--iso", "local:iso/x.iso", "--start", "--no-wait", "memory=4096"]);
    expect(decodeURIComponent(ctl.api.last("POST /api2/json/nodes/n1/qemu").body)).toBe(
      "vmid=300&cores=1&memory=4096&name=db&scsihw=virtio-scsi-single&scsi0=local:8,format=qcow2,iothread=1&net0=virtio,bridge=vmbr0&ide2=local:iso/x.iso,media=cdrom&start=1",
    );
    ctl.api
      .pve("GET /nodes/n1/network", [{ iface: "vmbr0" }])
      .pve("GET /nodes/n1/storage/thin/status", { type: "lvmthin" });
    await ctl.run(["vm", "create", "--node", "n1", "--disk", "4", "--storage", "thin"]);
    expect(decodeURIComponent(ctl.api.last("POST /api2/json/nodes/n1/qemu").body)).toContain(
      "&scsi0=thin:4,iothread=1&net0=virtio,bridge=vmbr0",
    );
    ctl.api.pve("GET /nodes", []);
    expect((await ctl.run(["vm", "create"])).code).toBe(11);
  });
});

describe("logs", () => {
  test("are those of the VM's tasks, oldest first", async () => {
    await using ctl = await withVms();
    const failed = { upid, type: "qmstart", status: "no space", starttime: 0, endtime: 1 };
    ctl.api.on("GET /api/v1/nodes/n1/vms/100/log", { body: { lines: ["oh"] } });
    ctl.api.pve("GET /nodes/n1/tasks", [{ upid, type: "qmstop", starttime: 60 }, failed]);
    expect((await ctl.run(["vm", "logs", "web", "--errors", "--type", "qmstart"])).out).toBe(
      "1970-01-01 00:00:00Z  qmstart  no space\n  step\n1970-01-01 00:01:00Z  qmstop  running\n  step\nQEMU\n  oh\n",
    );
    expect(ctl.api.last("GET /api2/json/nodes/n1/tasks").query.toString()).toBe(
      "vmid=100&source=all&limit=5&errors=1&typefilter=qmstart",
    );
    expect(JSON.parse((await ctl.run(["vm", "logs", "web", "-o", "json"])).out)).toMatchObject({
      tasks: [{ type: "qmstart", log: ["step"] }, { type: "qmstop" }],
      qemu: ["oh"],
    });
    ctl.api.pve("GET /nodes/n1/tasks", []).on("GET /api/v1/nodes/n1/vms/100/log", { body: {} });
    expect((await ctl.run(["vm", "logs", "web"])).err).toBe("VM 100 has no task logs.\n");
  });
});

describe("backup", () => {
  test("is incremental on our own face of the API", async () => {
    await using ctl = await withVms();
    ctl.api.on("POST /api/v1/nodes/n1/vms/100/backup", { status: 202, body: { task: upid } });
    const argv = ["vm", "backup", "web", "--incremental", "--compress", "0", "--protected"];
    expect((await ctl.run(argv)).out).toBe("Backed up VM 100.\n");
    expect(JSON.parse(ctl.api.last("POST /api/v1/nodes/n1/vms/100/backup").body)).toEqual({
      incremental: true,
      compress: "none",
      protected: true,
    });
    expect((await ctl.run([...argv, "--prune", "keep-last=1"])).code).toBe(2);
  });
});

describe("screenshot", () => {
  test("is written where it is wanted", async () => {
    await using ctl = await withVms();
    ctl.api.on("GET /api/v1/nodes/n1/vms/100/screenshot", { body: "PNG" });
    const file = join(ctl.home, "web.png");
    expect((await ctl.run(["vm", "screenshot", "web", "web.png"])).out).toBe(
      `The screen of VM 100 is in ${file}.\n`,
    );
    expect(readFileSync(file, "utf8")).toBe("PNG");
    const said = JSON.parse(
      (await ctl.run(["vm", "screenshot", "web", "web.png", "-o", "json"])).out,
    ) as unknown;
    expect(said).toEqual({ vmid: 100, file, bytes: 3 });
    expect((await ctl.run(["vm", "screenshot", "web", "/nowhere/x.png"])).err).toContain("cannot write");
  });
});

describe("exec", () => {
  const run = async (
    status: object,
    argv: readonly string[] = [],
    options: RunOptions = {},
  ): Promise<unknown> => {
    await using ctl = await withVms();
    let polls = 0;
    ctl.api.pve(`POST ${base}/agent/exec`, { pid: 7 });
    ctl.api.on(`GET /api2/json${base}/agent/exec-status`, () => {
      polls += 1;
      return { body: { data: polls > 1 ? status : { exited: 0 } } };
    });
    const ran = await ctl.run(["vm", "exec", "100", ...argv, "--", "sh", "-c", "echo hi"], options);
    const sent = ctl.api.last(`POST /api2/json${base}/agent/exec`).form;
    return { ...ran, command: sent.getAll("command"), input: sent.get("input-data") };
  };
  const command = ["sh", "-c", "echo hi"];

  test("prints what the program printed and ends with its exit code", async () => {
    expect(await run({ exited: 1, exitcode: 3, "out-data": "hi\n", "err-data": "oh\n" })).toEqual({
      code: 3,
      out: "hi\n",
      err: "oh\n",
      command,
      input: null,
    });
    expect(await run({ exited: 1, signal: 9 }, ["--stdin"], { stdin: "in" })).toMatchObject({
      code: 137,
      input: "in",
    });
    expect(await run({ exited: 1 }, ["-o", "json"])).toMatchObject({ code: 0, out: '{\n  "exited": 1\n}\n' });
  });

  test("stops waiting in time", async () => {
    expect(await run({ exited: 0 }, ["--wait-for", "1s"])).toMatchObject({
      code: 12,
      err: expect.stringContaining("still runs in the guest as process 7. Allow more time with --wait-for."),
    });
  });
});
