import { expect, test } from "vitest";
import { madeUpRequest, madeUpVmHost } from "../../testing/made-up-vm.ts";
import { createVmCloudinitHandlers } from "./vm-cloudinit-handlers.ts";

test("shows what a cloud-init drive holds and what it will hold when made again", async () => {
  const host = madeUpVmHost({}, {
    configs: {
      get: () => ({
        values: { ciuser: "new", cipassword: "secret", ipconfig0: "ip=dhcp", memory: "64" },
        special: { cloudinit: { ciuser: "old", searchdomain: "lan", added: "ipconfig0" } },
      }),
    },
  } as never);
  const read = createVmCloudinitHandlers(host)["GET /nodes/{node}/qemu/{vmid}/cloudinit"];
  expect(await read?.({ node: "n1", vmid: 100 }, madeUpRequest())).toEqual([
    { key: "cipassword", value: "**********" },
    { key: "ciuser", value: "old", pending: "new" },
    { key: "ipconfig0", pending: "ip=dhcp" },
    { key: "searchdomain", value: "lan", delete: 1 },
  ]);
});
