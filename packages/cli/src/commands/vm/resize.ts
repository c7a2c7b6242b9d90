import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { findVm, vmArgument } from "./find-vm.ts";

export const vmResize: CommandSpec = {
  name: "vm resize",
  summary: "grow a disk of a VM, while it runs too",
  details: "Disks never shrink. What is in the disk, partitions and file systems, is for the guest to grow.",
  arguments: [
    vmArgument,
    { name: "<disk>", about: "which one, such as scsi0" },
    { name: "<size>", about: "its new size, such as 20G, or by how much it grows, such as +5G" },
  ],
  options: [noWaitOption],
  examples: ["vm resize web scsi0 20G", "vm resize 100 virtio0 +512M"],
  doing: (input) => `resize ${input.arg("disk")} of VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const disk = input.arg("disk");
    const size = input.arg("size");
    // Which disks there are is for the server to say.
    const params = { ...place, disk, size };
    const { data: answer } = await client.pve.call("PUT", "/nodes/{node}/qemu/{vmid}/resize", params);
    await finishWork(cli, input, answer, `Disk ${disk} of VM ${place.vmid} has been resized: ${size}.`);
  },
};
