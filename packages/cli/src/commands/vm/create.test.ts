import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

const upid = "UPID:n1:1:";
const KEY = "ssh-ed25519 AAAAC3Nza joe@home";
const images = [
  { name: "tiny", pull: false, build: true },
  { name: "debian12", pull: true, build: true },
  { name: "alpine", pull: true, build: false },
  { name: "debian13", pull: true, build: true, volume: "local:import/debian13.qcow2" },
];

async function withNode(bridges: readonly string[] = ["vmbr0"]): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  ctl.api
    .pve("GET /cluster/nextid", "103")
    .pve("GET /nodes", [{ node: "n1", status: "online", maxmem: 1 }])
    .pve(
      "GET /nodes/n1/network",
      bridges.map((iface) => ({ iface, type: "bridge" })),
    )
    .pve("GET /nodes/n1/storage/local/status", { type: "dir" })
    .pve("POST /nodes/n1/qemu", upid)
    .pve(`GET /nodes/n1/tasks/${upid}/status`, { status: "stopped", exitstatus: "OK" })
    .pve(`GET /nodes/n1/tasks/${upid}/log`, [{ n: 1, t: "step" }], 1)
    .on("GET /api/v1/nodes/n1/images", { body: { images } });
  return ctl;
}

const created = (ctl: Gpvectl): Record<string, string> =>
  Object.fromEntries(ctl.api.last("POST /api2/json/nodes/n1/qemu").form);

describe("vm create --image", () => {
  test("builds an image that is not there, and gives the guest what it needs", async () => {
    await using ctl = await withNode();
    ctl.api.on("POST /api/v1/nodes/n1/images/tiny/build", { status: 202, body: { task: upid } });
    const ran = await ctl.run(["vm", "create", "--image", "tiny", "--name", "demo"]);
    expect(ran).toMatchObject({ code: 0, out: "Created VM 103 (demo) on n1.\n" });
    expect(ran.err).toBe(
      "Image tiny is not on node n1 yet: building it from Debian packages\n  step\n  step\nStart it: gpvectl vm start 103.\n",
    );
    expect(created(ctl)).toEqual({
      vmid: "103",
      name: "demo",
      cores: "1",
      memory: "1024",
      ostype: "l26",
      scsihw: "virtio-scsi-single",
      scsi0: "local:0,import-from=local:import/tiny.qcow2,format=qcow2,discard=on,iothread=1",
      boot: "order=scsi0",
      serial0: "socket",
      agent: "1",
      net0: "virtio,bridge=vmbr0",
      ide2: "local:cloudinit",
      ipconfig0: "ip=dhcp",
    });
  });

  test("names vmbr0 where cards have user-mode networks, whatever bridges others have made", async () => {
    await using ctl = await withNode(["vmbr7"]);
    const argv = ["vm", "create", "--image", "debian13"];
    expect((await ctl.run(argv)).err).not.toContain("user-mode");
    expect(created(ctl)["net0"]).toBe("virtio,bridge=vmbr7");
    const capabilities = [{ name: "tap", available: false }];
    ctl.api.on("GET /api/v1/nodes/n1/capabilities", { body: { capabilities } });
    expect((await ctl.run(argv)).err).toContain("its card on vmbr0 gets a user-mode network");
    expect(created(ctl)["net0"]).toBe("virtio,bridge=vmbr0");
  });

  test("lets its owner in", async () => {
    await using ctl = await withNode(["br1", "br2"]);
    const argv = ["vm", "create", "--image", "debian13"];
    expect((await ctl.run(argv)).err).toContain("Nobody will be able to log in");
    expect((await ctl.run(argv)).err).toContain("Without a network card: which of br1, br2");
    expect(created(ctl)).not.toHaveProperty("net0");
    mkdirSync(join(ctl.home, ".ssh"));
    writeFileSync(join(ctl.home, ".ssh/id_rsa.pub"), `${KEY}\n`);
    expect((await ctl.run(argv)).err).toContain(".ssh/id_rsa.pub will open it.");
    expect(created(ctl)).toMatchObject({ sshkeys: encodeURIComponent(KEY) });
    const more = [
      "--ssh-key",
      ".ssh/id_rsa.pub",
      "--ssh-key",
      "ssh-rsa B",
      "--user",
      "joe",
      "--bridge",
      "br2",
    ];
    await ctl.run([...argv, ...more, "--password-stdin"], { stdin: "secret\n" });
    expect(created(ctl)).toMatchObject({
      sshkeys: encodeURIComponent(`${KEY}\nssh-rsa B`),
      ciuser: "joe",
      cipassword: "secret",
      net0: "virtio,bridge=br2",
    });
    writeFileSync(join(ctl.home, "id_rsa"), "-----BEGIN");
    expect((await ctl.run([...argv, "--ssh-key", "id_rsa"])).err).toContain("Name the public half");
    expect((await ctl.run([...argv, "--ssh-key", "nowhere"])).err).toContain("cannot read the key");
  });

  test("says that an image can only be pulled, or is unknown", async () => {
    await using ctl = await withNode();
    expect(await ctl.run(["vm", "create", "--image", "alpine"])).toMatchObject({
      code: 5,
      err: expect.stringContaining(
        "it cannot be built, only pulled. Pull it first: gpvectl image pull alpine --node n1.",
      ),
    });
    expect((await ctl.run(["vm", "create", "--image", "beos"])).err).toContain(
      "there is no image beos, and no such file (images: tiny, debian12, alpine, debian13). See: gpvectl image list.",
    );
    expect((await ctl.run(["vm", "create", "--image", "./beos.img"])).err).toContain(
      "beos.img. Check the path.",
    );
    expect((await ctl.run(["vm", "create", "--image", "/"])).err).toContain("/ is not a file");
  });

  test("uploads a file, under a name that tells its format", async () => {
    await using ctl = await withNode([]);
    ctl.api.pve("POST /nodes/n1/storage/local/upload", upid);
    writeFileSync(join(ctl.home, "my disk.img"), Buffer.from("514649fb00000003", "hex"));
    const ran = await ctl.run(["vm", "create", "--image", "my disk.img", "-o", "json", "--bridge", "none"]);
    expect(JSON.parse(ran.out)).toEqual({ vmid: 103, node: "n1" });
    expect(ctl.api.last("POST /api2/json/nodes/n1/storage/local/upload").body).toContain(
      'filename="my_disk.qcow2"',
    );
    expect(created(ctl)["scsi0"]).toContain("import-from=local:import/my_disk.qcow2,");
    expect(created(ctl)).not.toHaveProperty("ide2");
    writeFileSync(join(ctl.home, "plain"), "x");
    await ctl.run(["vm", "create", "--image", "plain"]);
    expect(created(ctl)["scsi0"]).toContain("import-from=local:import/plain.raw,");
    await ctl.run(["vm", "create", "--image", "nfs:import/x.qcow2"]);
    expect(created(ctl)["scsi0"]).toContain("import-from=nfs:import/x.qcow2,");
  });

  test("lets the node download an address, once", async () => {
    await using ctl = await withNode();
    const url = "https://example.org/a.qcow2";
    const content = "GET /nodes/n1/storage/local/content";
    ctl.api
      .pve("GET /nodes/n1/query-url-metadata", { filename: "a.qcow2" })
      .pve(content, [])
      .pve("POST /nodes/n1/storage/local/download-url", upid);
    expect((await ctl.run(["vm", "create", "--image", url])).err).toContain("Downloading a.qcow2 to node n1");
    expect(
      Object.fromEntries(ctl.api.last("POST /api2/json/nodes/n1/storage/local/download-url").form),
    ).toEqual({
      url,
      filename: "a.qcow2",
      content: "import",
    });
    ctl.api.pve(content, [{ volid: "local:import/a.qcow2" }]);
    expect((await ctl.run(["vm", "create", "--image", url])).err).toContain("which is there already");
    for (const facts of [{ filename: "a.img" }, {}]) {
      ctl.api.pve("GET /nodes/n1/query-url-metadata", facts);
      expect((await ctl.run(["vm", "create", "--image", url])).err).toContain("--name NAME.qcow2");
    }
  });

  test("grows the disk, starts it and opens its console, in this order", async () => {
    await using ctl = await withNode();
    ctl.api
      .pve("PUT /nodes/n1/qemu/103/resize", upid)
      .pve("POST /nodes/n1/qemu/103/status/start", upid)
      .pve("POST /nodes/n1/qemu/103/termproxy", { port: 5900, ticket: "T", user: "u" })
      .onSocket((message, socket) => {
        if (message.toString() !== "u:T\n") return;
        socket.say("OKready");
        socket.end();
      });
    const argv = ["vm", "create", "--image", "debian13", "--disk", "20", "--console"];
    expect(await ctl.run(argv)).toMatchObject({
      code: 0,
      out: "Created VM 103 on n1.\nIts disk has 20 GiB.\nStarted VM 103.\nready",
    });
    expect(ctl.api.last("PUT /api2/json/nodes/n1/qemu/103/resize").body).toBe("disk=scsi0&size=20G");
    ctl.api.pveError("POST /nodes/n1/qemu/103/status/start", 500, "bridge 'vmbr0' does not exist");
    expect((await ctl.run(argv)).err).toContain(
      "cannot start VM 103, which was created on https://fake:8006: bridge 'vmbr0' does not exist. Name one",
    );
    expect((await ctl.run([...argv, "--no-wait"])).err).toContain("--console comes after the VM is made");
    const quick = ["vm", "create", "--image", "debian13", "--start", "--no-wait"];
    expect((await ctl.run(quick)).out).toBe(`${upid}\n`);
    expect(created(ctl)).toMatchObject({ start: "1" });
    expect((await ctl.run([...quick, "--disk", "3"])).err).toContain("--disk with --image comes after");
    expect((await ctl.run(["vm", "create", "--user", "joe"])).err).toContain("guests made with --image");
  });
});
