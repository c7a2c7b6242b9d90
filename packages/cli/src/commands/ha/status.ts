// How HA stands, why it is so, and what is told to it as a whole.
import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";
import { showRows, watchOptions } from "../../watch.ts";
import { GUEST_ABOUT, sidOrNode } from "./guest-sid.ts";

export const haStatus: CommandSpec = {
  name: "ha status",
  summary: "show quorum, manager, nodes and guests under HA",
  options: watchOptions,
  examples: ["ha status", "ha status --watch"],
  doing: () => "show how HA stands",
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const columns = [
      { header: "WHAT", field: "type" },
      { header: "STATUS", field: "status" },
      { header: "WANTED", field: "request_state" },
    ] as const;
    await showRows(cli, input, columns, "Nothing is under HA.", () => pve.list("/cluster/ha/status/current"));
  },
};

export const haExplain: CommandSpec = {
  name: "ha explain",
  summary: "show what HA decided and did, and on what grounds",
  details: "About one guest, with the nodes that had to do with it, or about everything. Oldest first.",
  arguments: [{ name: "[about]", about: `${GUEST_ABOUT}; or a node` }],
  examples: ["ha explain vm:100", "ha explain n2"],
  doing: () => "explain what HA did",
  run: async (cli, input) => {
    const client = await cli.client();
    const about = input.optionalArg("about");
    const what = about === undefined ? undefined : await sidOrNode(client, about);
    const query = what === undefined ? "" : `?about=${encodeURIComponent(what)}`;
    const page = await client.v1.raw("GET", `ha/evidence${query}`);
    const entries = isObject(page) && Array.isArray(page["entries"]) ? page["entries"] : [];
    const columns = [
      { header: "TIME", field: "at", format: "time" },
      { header: "BY", field: "by" },
      { header: "ROLE", field: "role" },
      { header: "LEVEL", field: "level", wide: true },
      { header: "WHAT", field: "text" },
    ] as const;
    cli.out.rows(entries as readonly unknown[], columns, "HA has decided nothing of that.");
  },
};

export const haArm: CommandSpec = {
  name: "ha arm",
  summary: "have HA look after its guests again",
  examples: ["ha arm"],
  doing: () => "arm HA",
  run: async (cli) => {
    const { pve } = await cli.client();
    await pve.post("/cluster/ha/status/arm-ha", {});
    cli.out.done("HA is being armed. See: ha status");
  },
};

export const haDisarm: CommandSpec = {
  name: "ha disarm",
  summary: "take leases, deadlines and watchdogs away, for work on the network; guests run on",
  options: [{ flags: "--ignore", about: "guests may be started, stopped and moved by hand meanwhile" }],
  examples: ["ha disarm", "ha disarm --ignore"],
  doing: () => "disarm HA",
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const mode = input.flag("ignore") ? "ignore" : "freeze";
    await pve.post("/cluster/ha/status/disarm-ha", { "resource-mode": mode });
    cli.out.done("HA is being disarmed: nothing is recovered until `ha arm`. See: ha status");
  },
};

export const haMaintenance: CommandSpec = {
  name: "ha maintenance",
  summary: "move the guests under HA off a node, or let them come back",
  arguments: [
    { name: "<verb>", about: "on or off", choices: ["on", "off"] },
    { name: "<node>", about: "the node" },
  ],
  examples: ["ha maintenance on n2", "ha maintenance off n2"],
  doing: (input) => `${input.arg("verb") === "on" ? "begin" : "end"} the maintenance of ${input.arg("node")}`,
  run: async (cli, input) => {
    const { v1, pve } = await cli.client();
    const on = input.arg("verb") === "on";
    const node = input.arg("node");
    await v1.raw("POST", `ha/nodes/${encodeURIComponent(node)}/maintenance`, { body: { enabled: on } });
    if (!on) return cli.out.done(`${node} takes guests again.`);
    cli.out.done(
      `The guests under HA are being moved off ${node}, and nothing new is placed there. See: ha status`,
    );
    if (!cli.out.forPeople) return;
    const guests = await pve.list("/cluster/resources", { type: "vm" });
    const others = guests.filter(
      (row) => row["node"] === node && row["status"] === "running" && row["hastate"] === undefined,
    );
    if (others.length === 0) return;
    const named = others.map((row) => `${String(row["vmid"])} (${String(row["name"])})`).join(", ");
    cli.out.note(`Not under HA, and so left there: ${named}. Move them too: gpvectl node drain ${node}`);
  },
};
