import { expect, test } from '@jest/globals';
import {
  isList,
  isStreamedList,
  isWatch,
  isWrite,
  proxiedRequest,
} from '../../../packages/testing/src/proxied-request.ts';

test.each([
  ['GET', '/api/v1/configmaps?limit=500', 'list', 'configmaps', ''],
  ['GET', '/api/v1/configmaps?watch=false', 'list', 'configmaps', ''],
  ['GET', '/api/v1/configmaps?watch=true&resourceVersion=1', 'watch', 'configmaps', ''],
  ['GET', '/api/v1/namespaces/default/configmaps?watch=1', 'watch', 'configmaps', ''],
  ['GET', '/api/v1/namespaces/default', 'get', 'namespaces', 'default'],
  ['GET', '/api/v1/namespaces', 'list', 'namespaces', ''],
  ['GET', '/apis/mmontes.io/v1alpha1/namespaces/default/echos/hello', 'get', 'echos', 'hello'],
  ['PATCH', '/apis/mmontes.io/v1alpha1/namespaces/default/echos/hello/status', 'patch', 'echos', 'hello'],
  ['POST', '/apis/batch/v1/namespaces/default/jobs', 'create', 'jobs', ''],
  ['PUT', '/apis/batch/v1/namespaces/default/jobs/a', 'update', 'jobs', 'a'],
  ['DELETE', '/apis/batch/v1/namespaces/default/jobs/a', 'delete', 'jobs', 'a'],
  ['DELETE', '/apis/batch/v1/namespaces/default/jobs?labelSelector=a', 'deletecollection', 'jobs', ''],
  ['GET', '/readyz', 'get', '', ''],
])('%s %s is a %s of %s %s', (method, target, verb, resource, name) => {
  const request = proxiedRequest(method, target);
  expect(request).toMatchObject({ verb, resource, name });
  expect([isWatch(request), isList(request), isWrite(request)]).toEqual([
    verb === 'watch',
    verb === 'list',
    method !== 'GET',
  ]);
});

test.each([
  ['/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan', true],
  ['/api/v1/pods?watch=true&resourceVersion=1', false],
  ['/api/v1/pods?sendInitialEvents=true', false],
])('%s: a streamed list is %s', (target, streamed) => {
  expect(isStreamedList(proxiedRequest('GET', target))).toBe(streamed);
});
