import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";

export const nodeShow: CommandSpec = {
  name: "node show",
  summary: "show one node: machine, load, memory, versions",
  arguments: [{ name: "<node>", about: "the node's name" }],
  examples: ["node show n1"],
  doing: (input) => `show node ${input.arg("node")}`,
  run: async (cli, input) => {
    const node = input.arg("node");
    const { pve } = await cli.client();
    const status = await pve.get("/nodes/{node}/status", { node });
    const all = { node, ...(isObject(status) ? status : {}) };
    cli.out.facts(all, [
      { header: "Node", field: "node" },
      { header: "Version", field: "pveversion" },
      { header: "Kernel", field: "kversion" },
      { header: "CPU model", field: "cpuinfo.model" },
      { header: "CPUs", field: "cpuinfo.cpus" },
      { header: "CPU use", field: "cpu", format: "percent" },
      { header: "Load", field: "loadavg", format: "list" },
      { header: "Memory", field: "memory.total", format: "bytes" },
      { header: "Memory used", field: "memory.used", format: "bytes" },
      { header: "Swap", field: "swap.total", format: "bytes" },
      { header: "Root disk", field: "rootfs.total", format: "bytes" },
      { header: "Root disk used", field: "rootfs.used", format: "bytes" },
      { header: "Uptime", field: "uptime", format: "duration" },
    ]);
  },
};
