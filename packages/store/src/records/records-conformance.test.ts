import { describe } from "vitest";
import { silentLogger } from "@gpve/kit/logger.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { recordsConformance } from "../testing/records-conformance.ts";
import { openRecords } from "./records.ts";

describe("records on a store", () => {
  recordsConformance(() =>
    openRecords(openSqliteStore({ path: ":memory:" }), { prefix: "/gpve/", log: silentLogger }),
  );
});
