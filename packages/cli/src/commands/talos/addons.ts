import { AppError } from "@gpve/contracts/errors.ts";
import type { PreparedAddon } from "@gpve/talos/addon/prepare-addons.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { explaining, fileOf, fileOption, openFolder } from "./around.ts";
import { forPrograms, printFindings } from "./preflight.ts";
import { prepareFor } from "./prepare-addons.ts";

export const talosAddonsList: CommandSpec = {
  name: "talos addons list",
  summary: "show the cluster's add-ons in their order, with the versions they are held to",
  details:
    "An add-on is fetched once, by plan or apply, and held to that version and checksum from then on. Ends with 1 when one of them was not fetched or does not render.",
  options: [fileOption],
  examples: ["talos addons list", "talos addons list --output json"],
  doing: (input) => `list the add-ons of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const { addons, findings } = await prepareFor(cli, place, { isFetching: false });
      const rows = addons.map(({ kind, version, source, digest, objects }) => ({
        name: kind.name,
        version,
        source: source ?? "gpve itself",
        objects: objects.length,
        digest,
      }));
      if (!cli.out.forPeople) cli.out.data({ addons: rows, findings: await forPrograms(findings) });
      else {
        cli.out.text(
          cli.out.table(rows, [
            { header: "ADD-ON", field: "name" },
            { header: "VERSION", field: "version" },
            { header: "OBJECTS", field: "objects" },
            { header: "FROM", field: "source" },
          ]),
        );
        await printFindings(cli, findings);
      }
      return findings.length === 0 ? 0 : 1;
    }),
};

export const talosAddonsShow: CommandSpec = {
  name: "talos addons show",
  summary: "print what an add-on applies to the cluster",
  details: "It is fetched when it was not before. What Secrets hold is not shown.",
  arguments: [{ name: "<name>", about: "the add-on" }],
  options: [fileOption],
  examples: ["talos addons show metrics-server"],
  doing: (input) => `show an add-on of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const name = input.arg("name");
      const { objects } = await needAddon(cli, place, name);
      const { redactedObject } = await import("@gpve/talos/addon/redacted-object.ts");
      const shown = objects.map(redactedObject);
      if (!cli.out.forPeople) cli.out.data(shown);
      else {
        const { stringify } = await import("yaml");
        cli.out.text(shown.map((object) => `---\n${stringify(object)}`).join(""));
      }
      return 0;
    }),
};

export const talosAddonsUpdate: CommandSpec = {
  name: "talos addons update",
  summary: "let go of an add-on's version and checksum, and fetch it anew",
  details:
    "The newest version that this release knows, or the one the file names. The next apply installs it; until then nothing changes in the cluster.",
  arguments: [{ name: "<name>", about: "the add-on" }],
  options: [fileOption],
  examples: ["talos addons update metrics-server"],
  doing: (input) => `update an add-on of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const { AddonStore } = await import("@gpve/talos/addon/addon-store.ts");
      const { wantedAddons } = await import("@gpve/talos/addon/addon-catalogue.ts");
      const name = input.arg("name");
      if (!wantedAddons(place.cluster).some((kind) => kind.name === name)) throw unknownAddon(name);
      const store = new AddonStore(place.folder, place.cluster.metadata.name);
      const { [name]: before } = store.locked();
      store.lock(name, undefined);
      try {
        const { version } = await needAddon(cli, place, name);
        cli.out.done(`${name}: ${before?.version ?? "new"} -> ${version}.`);
      } catch (err) {
        store.lock(name, before);
        throw err;
      }
      return 0;
    }),
};

async function needAddon(cli: Cli, place: ClusterFolder, name: string): Promise<PreparedAddon> {
  const { addons, findings } = await prepareFor(cli, place, { isFetching: true, name });
  const [found] = addons;
  if (found !== undefined) return found;
  const [finding] = findings;
  if (finding === undefined) throw unknownAddon(name);
  throw new AppError("operation.failed", finding.evidence, { data: { finding: finding.id } });
}

function unknownAddon(name: string): AppError {
  return new AppError("object.not_found", `the file asks for no add-on "${name}"`, {
    data: { next: "See those it asks for with: gpvectl talos addons list" },
  });
}
