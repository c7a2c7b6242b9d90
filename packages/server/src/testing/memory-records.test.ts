import { describe } from "vitest";
import { recordsConformance } from "@gpve/store/testing/records-conformance.ts";
import { MemoryRecords } from "./memory-records.ts";

describe("records without a store", () => {
  recordsConformance(async () => new MemoryRecords());
});
