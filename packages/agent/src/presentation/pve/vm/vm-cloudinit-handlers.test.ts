import { expect, test } from "vitest";
import { madeUpRequest, madeUpVmHost } from "../../../testing/made-up-vm.ts";
import { createVmCloudinitHandlers } from "./vm-cloudinit-handlers.ts";

const engine = { withResource: (_key: unknown, _options: unknown, run: () => unknown) => run() } as never;
const dns = { read: () => Promise.resolve({ search: "lan", dns1: "10.0.0.1" }) };

test("shows what a cloud-init drive holds and what it will hold when made again", async () => {
  const host = madeUpVmHost({}, {
    configs: {
      get: () => ({
        values: {
          ciupgrade: "1",
          ciuser: "new",
          cipassword: "secret",
          ipconfig0: "ip=dhcp",
          memory: "64",
        },
        special: { cloudinit: { ciuser: "old", searchdomain: "lan", added: "ipconfig0" } },
      }),
    },
  } as never);
  const read = createVmCloudinitHandlers({ host, engine, dns, sha1: String })[
    "GET /nodes/{node}/qemu/{vmid}/cloudinit"
  ];
  expect(await read?.({ node: "n1", vmid: 100 }, madeUpRequest())).toEqual([
    { key: "cipassword", value: "**********" },
    { key: "ciupgrade", value: 1 },
    { key: "ciuser", value: "old", pending: "new" },
    { key: "ipconfig0", pending: "ip=dhcp" },
    { key: "searchdomain", delete: 1 },
  ]);
});

test("dumps what a drive would be made from, with the node's name servers", async () => {
  const values = {
    name: "web",
    ciuser: "joe",
    cipassword: "$5$x$hash",
    net0: "virtio=BC:24:11:00:00:01,bridge=vmbr0",
  };
  const host = madeUpVmHost({ 100: { values } });
  const dump = createVmCloudinitHandlers({ host, engine, dns, sha1: () => "id" })[
    "GET /nodes/{node}/qemu/{vmid}/cloudinit/dump"
  ];
  const show = (type: "user" | "network" | "meta") =>
    dump?.({ node: "n1", vmid: 100, type }, madeUpRequest());
  expect(await show("user")).toContain("hostname: web");
  expect(await show("user")).toContain("$5$x$hash");
  const blind = { privileges: () => new Map(), has: () => false, require: () => undefined };
  const hidden = await dump?.({ node: "n1", vmid: 100, type: "user" }, madeUpRequest({ access: blind }));
  expect(hidden).toContain("**********");
  expect(hidden).not.toContain("hash");
  expect(await show("network")).toContain("10.0.0.1");
  expect(await show("meta")).toBe("instance-id: id\n");
});
