import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.*;

/** Creates nodes of these names, then prints the names of all nodes below the root: PORT [NAME]... */
public class ZooKeeperNodes {
    public static void main(String[] args) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper("127.0.0.1:" + args[0], 30000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) connected.countDown();
        });
        connected.await();
        for (String name : List.of(args).subList(1, args.length))
            client.create("/" + name, null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        List<String> names = client.getChildren("/", false);
        Collections.sort(names);
        System.out.println(String.join(" ", names));
        client.close();
    }
}
