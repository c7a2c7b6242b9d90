import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";

export const apiCoverage: CommandSpec = {
  name: "api coverage",
  summary: "show how much of the Proxmox API this server has, per area",
  options: [
    { flags: "--missing", about: "list the methods that are not implemented" },
    { flags: "--area <area>", about: "only this area, such as access" },
  ],
  examples: ["api coverage", "api coverage --missing --area nodes"],
  doing: () => "show the API coverage",
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const answer = await v1.raw("GET", "coverage");
    if (!isObject(answer) || !Array.isArray(answer["areas"])) {
      throw new AppError("internal.error", "the server's coverage has no areas");
    }
    const wanted = input.text("area");
    const keep = (row: unknown): boolean => isObject(row) && (wanted === undefined || row["area"] === wanted);
    if (input.flag("missing")) {
      const routes = Array.isArray(answer["routes"]) ? (answer["routes"] as readonly unknown[]) : [];
      const missing = routes.filter((row) => keep(row) && isObject(row) && row["implemented"] !== true);
      const columns = [
        { header: "METHOD", field: "method" },
        { header: "PATH", field: "path" },
      ];
      cli.out.rows(missing, columns, "Nothing is missing.");
      return;
    }
    if (!cli.out.forPeople) {
      cli.out.data(answer);
      return;
    }
    const areas = (answer["areas"] as readonly unknown[]).filter(keep).filter(isObject);
    const sum = (field: string): number => areas.reduce((total, area) => total + Number(area[field]), 0);
    const rows = [...areas, { area: "total", implemented: sum("implemented"), known: sum("known") }];
    cli.out.rows(
      rows.map((row) => ({ ...row, share: Number(row["implemented"]) / Math.max(1, Number(row["known"])) })),
      [
        { header: "AREA", field: "area" },
        { header: "IMPLEMENTED", field: "implemented" },
        { header: "KNOWN", field: "known" },
        { header: "SHARE", field: "share", format: "percent" },
      ],
      "No areas.",
    );
  },
};
