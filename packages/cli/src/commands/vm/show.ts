import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";
import { findVm, vmArgument } from "./find-vm.ts";
import { guestAddresses } from "./guest-addresses.ts";

export const vmShow: CommandSpec = {
  name: "vm show",
  summary: "show what a VM is doing now",
  arguments: [vmArgument],
  examples: ["vm show 100", "vm show web -o json"],
  doing: (input) => `show VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const status = await client.pve.get("/nodes/{node}/qemu/{vmid}/status/current", { ...place });
    const known = isObject(status) ? status : {};
    const addresses = await guestAddresses(client, place, known);
    const facts = { ...place, ...known, ...(addresses.length === 0 ? {} : { addresses }) };
    cli.out.facts(facts, [
      { header: "VMID", field: "vmid" },
      { header: "Name", field: "name" },
      { header: "Node", field: "node" },
      { header: "Status", field: "status" },
      { header: "QEMU state", field: "qmpstatus" },
      { header: "Addresses", field: "addresses", format: "list" },
      { header: "Lock", field: "lock" },
      { header: "Template", field: "template", format: "boolean" },
      { header: "Process", field: "pid" },
      { header: "Uptime", field: "uptime", format: "duration" },
      { header: "CPUs", field: "cpus" },
      { header: "CPU use", field: "cpu", format: "percent" },
      { header: "Memory", field: "maxmem", format: "bytes" },
      { header: "Memory used", field: "mem", format: "bytes" },
      { header: "Disk", field: "maxdisk", format: "bytes" },
      { header: "Disk read", field: "diskread", format: "bytes" },
      { header: "Disk written", field: "diskwrite", format: "bytes" },
      { header: "Network in", field: "netin", format: "bytes" },
      { header: "Network out", field: "netout", format: "bytes" },
      { header: "Machine", field: "running-machine" },
      { header: "QEMU", field: "running-qemu" },
      { header: "Accelerator", field: "gpve-accelerator" },
      { header: "Remarks", field: "gpve-notes", format: "sentences" },
      { header: "Tags", field: "tags" },
    ]);
  },
};
