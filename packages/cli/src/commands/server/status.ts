import { isObject } from "@gpve/client/response-error.ts";
import type { PveRow } from "@gpve/client/pve-client.ts";
import type { CommandSpec } from "../../command.ts";
import { findTarget } from "../../session/target.ts";
import { isGuestType } from "@gpve/domain/guest/guest-words.ts";

export const status: CommandSpec = {
  name: "status",
  summary: "show the server, its nodes, guests and running tasks at a glance",
  examples: ["status", "status --data /var/lib/gpve", "status -o json"],
  doing: () => "show the status",
  run: async (cli) => {
    const target = await findTarget(cli.io, cli.global);
    const client = await cli.client();
    const [version, nodes, resources, tasks] = await Promise.all([
      client.pve.get("/version"),
      client.pve.list("/nodes"),
      client.pve.list("/cluster/resources"),
      client.pve.list("/cluster/tasks"),
    ]);
    const guests = resources.filter((row) => isGuestType(row["type"]));
    const running = guests.filter((row) => row["status"] === "running");
    const active = tasks.filter((row) => row["endtime"] === undefined || row["endtime"] === 0);
    const failed = tasks.filter((row) => !active.includes(row) && isFailed(row));
    const facts = {
      server: client.origin,
      source: target.source,
      version: isObject(version) ? version["version"] : undefined,
      nodes: { online: nodes.filter((row) => row["status"] === "online").length, known: nodes.length },
      guests: { running: running.length, known: guests.length },
      tasks: { running: active.length, recentlyFailed: failed.length },
    };
    if (!cli.out.forPeople) {
      cli.out.data(facts);
      return;
    }
    cli.out.facts(
      {
        server: facts.server,
        source: facts.source,
        version: facts.version,
        nodes: `${facts.nodes.online} of ${facts.nodes.known} online`,
        guests: `${facts.guests.running} of ${facts.guests.known} running`,
        tasks: `${facts.tasks.running} running, ${facts.tasks.recentlyFailed} failed lately`,
      },
      [
        { header: "Server", field: "server" },
        { header: "Chosen by", field: "source" },
        { header: "Speaks PVE", field: "version" },
        { header: "Nodes", field: "nodes" },
        { header: "Guests", field: "guests" },
        { header: "Tasks", field: "tasks" },
      ],
    );
    const away = nodes.filter((row) => row["status"] !== "online");
    for (const row of away)
      cli.out.line(cli.out.colours.red(`Node ${String(row["node"])} is ${String(row["status"])}.`));
  },
};

function isFailed(row: PveRow): boolean {
  const outcome = row["status"];
  return typeof outcome === "string" && outcome !== "OK" && !outcome.startsWith("WARNINGS");
}
