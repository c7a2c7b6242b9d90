import type { TableColumn } from "../../output/table.ts";

export const taskColumns: readonly TableColumn[] = [
  { header: "STARTED", field: "starttime", format: "time" },
  { header: "NODE", field: "node" },
  { header: "TYPE", field: "type" },
  { header: "ID", field: "id" },
  { header: "USER", field: "user" },
  { header: "TIME", field: "seconds", format: "duration" },
  { header: "STATUS", field: "status", format: "state" },
  { header: "UPID", field: "upid" },
];

export const taskFacts: readonly TableColumn[] = [
  { header: "UPID", field: "upid" },
  { header: "Node", field: "node" },
  { header: "Type", field: "type" },
  { header: "Id", field: "id" },
  { header: "User", field: "user" },
  { header: "Token", field: "tokenid" },
  { header: "Started", field: "starttime", format: "time" },
  { header: "Status", field: "status" },
  { header: "Exit status", field: "exitstatus" },
];
