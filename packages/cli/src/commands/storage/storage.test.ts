import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

const upid = "UPID:n1:00000001:00000000:65000000:imgcopy::root@pam:";

async function ctlWithNode(): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  ctl.api.pve("GET /nodes", [{ node: "n1" }]);
  return ctl;
}

test("storage list shows storages of all nodes, or of one", async () => {
  await using ctl = await ctlWithNode();
  ctl.api
    .pve("GET /cluster/resources", [
      {
        storage: "local",
        node: "n1",
        plugintype: "dir",
        status: "available",
        disk: 50,
        maxdisk: 100,
        content: "iso",
      },
    ])
    .pve("GET /nodes/n1/storage", [
      { storage: "local", type: "dir", enabled: 1, active: 1, used: 1, total: 4, content: "iso" },
    ]);
  expect((await ctl.run(["storage", "list"])).out).toMatch(/local\s+n1\s+dir\s+available\s+50/);
  expect(ctl.api.last("GET /api2/json/cluster/resources").query.get("type")).toBe("storage");
  expect((await ctl.run(["storage", "list", "--node", "n1"])).out).toMatch(/local\s+dir\s+1\s+1\s+25/);
});

test("storage show prints every option of the definition", async () => {
  await using ctl = await ctlWithNode();
  ctl.api.pve("GET /storage/local", { storage: "local", type: "dir", path: "/x", shared: 1, digest: "d" });
  const { out } = await ctl.run(["storage", "show", "local"]);
  expect(out).toMatch(/Storage:\s+local/);
  expect(out).toMatch(/Shared:\s+1/);
  expect(out).not.toContain("Digest");
});

test("storage create and delete", async () => {
  await using ctl = await ctlWithNode();
  ctl.api.pve("POST /storage", { storage: "d", type: "dir" }).pve("DELETE /storage/d", null);
  const made = await ctl.run([
    "storage",
    "create",
    "d",
    "--path",
    "/srv/d",
    "--content",
    "iso",
    "--shared",
    "--mountpoint",
  ]);
  expect(made.out).toBe("Created storage d.\n");
  expect(Object.fromEntries(ctl.api.last("POST /api2/json/storage").form)).toEqual({
    storage: "d",
    type: "dir",
    path: "/srv/d",
    content: "iso",
    shared: "1",
    is_mountpoint: "yes",
  });
  expect((await ctl.run(["storage", "create", "d"])).code).toBe(2);
  const thin = ["storage", "create", "t", "--type", "lvmthin", "--vgname", "vg"];
  expect((await ctl.run(thin)).err).toContain("needs --thinpool");
  expect((await ctl.run([...thin, "--thinpool", "data"])).code).toBe(0);
  expect(Object.fromEntries(ctl.api.last("POST /api2/json/storage").form)).toEqual({
    storage: "t",
    type: "lvmthin",
    vgname: "vg",
    thinpool: "data",
  });
  expect((await ctl.run(["storage", "delete", "d"])).out).toBe(
    "Deleted storage d. Its files are still there.\n",
  );
});

test("storage content filters by kind and guest, on the only node there is", async () => {
  await using ctl = await ctlWithNode();
  ctl.api.pve("GET /nodes/n1/storage/local/content", [
    { volid: "local:iso/a.iso", content: "iso", size: 1024, format: "iso" },
  ]);
  const ran = await ctl.run(["storage", "content", "local", "--content", "iso", "--vmid", "100"]);
  expect(ran.out).toContain("local:iso/a.iso");
  expect(Object.fromEntries(ctl.api.last("GET /api2/json/nodes/n1/storage/local/content").query)).toEqual({
    content: "iso",
    vmid: "100",
  });
  ctl.api.pve("GET /nodes", [{ node: "n1" }, { node: "n2" }]);
  const unclear = await ctl.run(["storage", "content", "local"]);
  expect(unclear.err).toContain("say which with --node (n1, n2)");
});

test("storage upload sends the file after its fields", async () => {
  await using ctl = await ctlWithNode();
  const path = join(ctl.home, "a.iso");
  writeFileSync(path, "bytes");
  ctl.api.pve("POST /nodes/n1/storage/local/upload", upid);
  const ran = await ctl.run(["storage", "upload", "local", "a.iso", "--checksum", "md5:ab", "--no-wait"]);
  expect(ran).toMatchObject({ code: 0, out: `${upid}\n` });
  const { body } = ctl.api.last("POST /api2/json/nodes/n1/storage/local/upload");
  expect(body.replaceAll(/--gpve-[0-9a-f]{8}(?:-[0-9a-f]+){4}/g, "--B")).toBe(
    [
      "--B",
      'content-disposition: form-data; name="content"',
      "",
      "iso",
      "--B",
      'content-disposition: form-data; name="checksum-algorithm"',
      "",
      "md5",
      "--B",
      'content-disposition: form-data; name="checksum"',
      "",
      "ab",
      "--B",
      'content-disposition: form-data; name="filename"; filename="a.iso"',
      "content-type: application/octet-stream",
      "",
      "bytes",
      "--B--",
      "",
    ].join("\r\n"),
  );
});

test("storage upload refuses what it cannot read or name", async () => {
  await using ctl = await ctlWithNode();
  expect((await ctl.run(["storage", "upload", "local", "none.iso"])).err).toContain("cannot read");
  expect((await ctl.run(["storage", "upload", "local", ".", "--name", "x.iso"])).err).toContain(
    "is not a file",
  );
  expect((await ctl.run(["storage", "upload", "local", "a.txt"])).err).toContain("--content");
  const odd = await ctl.run(["storage", "upload", "local", "a.iso", "--checksum", "crc:1"]);
  expect(odd.err).toContain("is not a checksum");
});

test("storage download asks the node what the URL is called", async () => {
  await using ctl = await ctlWithNode();
  ctl.api
    .pve("GET /nodes/n1/query-url-metadata", { filename: "d.qcow2.gz" })
    .pve("POST /nodes/n1/storage/local/download-url", upid);
  const url = "https://example.org/d.qcow2.gz";
  const ran = await ctl.run([
    "storage",
    "download",
    "local",
    url,
    "--compression",
    "gz",
    "--insecure",
    "--no-wait",
  ]);
  expect(ran.code).toBe(0);
  expect(
    Object.fromEntries(ctl.api.last("POST /api2/json/nodes/n1/storage/local/download-url").form),
  ).toMatchObject({
    filename: "d.qcow2",
    content: "import",
    compression: "gz",
    url,
    "verify-certificates": "0",
  });
  ctl.api.pve("GET /nodes/n1/query-url-metadata", {});
  expect((await ctl.run(["storage", "download", "local", url])).err).toContain("--name");
  await ctl.run(["storage", "download", "local", url, "--name", "deb.tar.zst", "--no-wait"]);
  expect(ctl.api.last("POST /api2/json/nodes/n1/storage/local/download-url").form.get("content")).toBe(
    "vztmpl",
  );
});
